/**
 * Checks the URL of a webhook (contract §10), and whether a delivery may connect to an address. The address must be globally
 * reachable according to IANA's special-purpose registries, or be in a network that the operator has allowed.
 */
import { Option, Redacted, Result } from "effect"
import { IpInterface, IpNetwork, NetAddress } from "effect/net"
import { isIP } from "node:net"
import { networkInterfaces } from "node:os"
import { hostOf, isLocalhost, listening } from "../../outbound/Connections.ts"
import type { Settings } from "../../platform/Settings.ts"

/** `allowed`: in an allowed network, public or not. `refused`: neither public nor allowed, or not an address. */
type AddressClass = "public" | "allowed" | "refused"

/** Networks such as those of `WEBHOOK_ALLOWED_NETWORKS`. */
export type Networks = ReadonlyArray<IpNetwork.IpNetwork>

/**
 * The networks that the IANA IPv4 Special-Purpose Address Registry does not define as globally reachable
 * (https://www.iana.org/assignments/iana-ipv4-special-registry, as of 2026-07), and multicast.
 */
const specialIPv4 = [
  "0.0.0.0/8", // this network
  "10.0.0.0/8", // private use
  "100.64.0.0/10", // shared address space
  "127.0.0.0/8", // loopback
  "169.254.0.0/16", // link local, metadata of clouds
  "172.16.0.0/12", // private use
  "192.0.0.0/24", // IETF protocol assignments
  "192.0.2.0/24", // documentation
  "192.88.99.0/24", // 6to4 relay, deprecated; the registry leaves it open
  "192.168.0.0/16", // private use
  "198.18.0.0/15", // benchmarking
  "198.51.100.0/24", // documentation
  "203.0.113.0/24", // documentation
  "224.0.0.0/4", // multicast (RFC 5771)
  "240.0.0.0/4" // reserved, limited broadcast
]

/** Globally reachable addresses in `specialIPv4`: anycast of Port Control Protocol and of TURN. */
const reachableIPv4 = ["192.0.0.9/32", "192.0.0.10/32"]

/**
 * What IANA has allocated for global unicast (https://www.iana.org/assignments/ipv6-address-space). Other addresses can be
 * public only if they embed an IPv4 address.
 */
const unicastIPv6 = ["2000::/3"]

/**
 * The networks that the IANA IPv6 Special-Purpose Address Registry does not define as globally reachable
 * (https://www.iana.org/assignments/iana-ipv6-special-registry, as of 2026-07). Networks outside of `2000::/3` are not
 * listed: loopback, 64:ff9b:1::/48, discard-only, dummy, SRv6 SIDs, unique local, link local, site local, multicast.
 */
const specialIPv6 = [
  "2001::/23", // IETF protocol assignments: Teredo, benchmarking, the first ORCHID
  "2001:db8::/32", // documentation
  "3fff::/20" // documentation
]

/** Globally reachable networks in `specialIPv6`. */
const reachableIPv6 = [
  "2001:1::1/128", // Port Control Protocol anycast
  "2001:1::2/128", // TURN anycast
  "2001:1::3/128", // DNS-SD Service Registration Protocol anycast
  "2001:3::/32", // AMT
  "2001:4:112::/48", // AS112
  "2001:20::/28", // ORCHIDv2
  "2001:30::/28" // drone remote id
]

/**
 * Parses networks, which the settings have validated: `10.0.0.0/8`, `fd00::/8`, or a single address. Bits beyond the prefix are
 * ignored.
 */
export const networksOf = (texts: ReadonlyArray<string>): Networks =>
  texts.flatMap((text) =>
    Result.match(IpInterface.fromString(text), {
      onSuccess: (found) => [IpNetwork.fromInterface(found)],
      onFailure: () => []
    })
  )

/** Whether an address of a name may be in one of the networks. Those of the loopback have the names of this machine alone. */
const mayContain = (networks: Networks, name: string): boolean =>
  isLocalhost(name) ? networks.length > 0 : networks.some(({ address }) => !NetAddress.isLoopback(address))

const has = (networks: Networks, address: NetAddress.IpAddress) =>
  networks.some((network) => IpNetwork.contains(network, address))

const special = networksOf([...specialIPv4, ...specialIPv6])
const reachable = networksOf([...reachableIPv4, ...reachableIPv6])
const unicast = networksOf(unicastIPv6)

/**
 * Classifies an IPv4 or IPv6 address (without brackets). An IPv6 address that embeds an IPv4 address (IPv4-mapped, NAT64,
 * 6to4) has the class of the IPv4 address, so an allowed IPv4 network also allows these forms. Text that is no address is
 * refused, and so is one with a zone (`fe80::1%eth0`), which no public address has.
 */
export const classify = (text: string, allowed: Networks): AddressClass =>
  Result.match(NetAddress.ipFromString(text), {
    onSuccess: (address) => classOf(address, allowed),
    onFailure: () => "refused"
  })

const classOf = (address: NetAddress.IpAddress, allowed: Networks): AddressClass => {
  if (has(allowed, address)) return "allowed"
  const isPublic = has(reachable, address) || !has(special, address)
  if (NetAddress.isIpv4Address(address)) return isPublic ? "public" : "refused"
  return Option.match(embedded(address), {
    onSome: (ipv4) => classOf(ipv4, allowed),
    onNone: () => (has(unicast, address) && isPublic ? "public" : "refused")
  })
}

/** Returns the IPv4 address in `::ffff:0:0/96` (RFC 4291), `64:ff9b::/96` (RFC 6052) or `2002::/16` (RFC 3056). */
const embedded = (address: NetAddress.Ipv6Address): Option.Option<NetAddress.Ipv4Address> => {
  const bytes = NetAddress.ipv6ToOctets(address)
  const at = (start: number) =>
    Option.some(NetAddress.ipv4FromBytesUnsafe(Uint8Array.from(bytes.slice(start, start + 4))))
  if (NetAddress.isIpv4Mapped(address) || has(nat64, address)) return at(12)
  return has(sixToFour, address) ? at(2) : Option.none()
}

const nat64 = networksOf(["64:ff9b::/96"])
const sixToFour = networksOf(["2002::/16"])

/** An allowed URL. Its host name may still resolve to addresses that are not allowed. */
interface AllowedUrl {
  readonly url: URL
  /** A name, or an address in canonical form without brackets. */
  readonly host: string
  readonly isAddress: boolean
}

/**
 * Checks scheme, credentials and fragment. If the host is an address in any spelling, also checks the address. Fails with a
 * message for people. Plain `http` to a host name is accepted if `allowed` is not empty. Each delivery then checks that the
 * address of the host is in an allowed network.
 */
export const checkUrl = (text: string, allowed: Networks): Result.Result<AllowedUrl, string> => {
  const url = URL.parse(text)
  if (url === null) return Result.fail("The endpoint URL can't be read.")
  if (url.protocol !== "https:" && url.protocol !== "http:") return Result.fail("The endpoint URL must use https.")
  if (url.username !== "" || url.password !== "") return Result.fail("The endpoint URL must not hold credentials.")
  // `href` is searched, because `hash` is empty for an empty fragment.
  if (url.href.includes("#")) return Result.fail("The endpoint URL must not have a fragment.")
  const host = hostOf(url)
  const isAddress = isIP(host) !== 0
  const addressClass = isAddress ? classify(host, allowed) : allowed.length === 0 ? "public" : "allowed"
  if (addressClass === "refused")
    return Result.fail(
      "The endpoint's address is neither public nor one that the operator allows (WEBHOOK_ALLOWED_NETWORKS)."
    )
  if (!mayConnect(url.protocol, addressClass)) return Result.fail("The endpoint URL must use https.")
  return Result.succeed({ url, host, isAddress })
}

/** Returns why a URL is not taken as that of a webhook. Plain `http` is taken only where its address may be in an allowed network. */
export const urlFault = (text: string, allowed: Networks): Option.Option<string> =>
  Result.getFailure(
    Result.flatMap(checkUrl(text, allowed), ({ host, isAddress, url }) =>
      url.protocol === "https:" || isAddress || mayContain(allowed, host)
        ? Result.void
        : Result.fail("The endpoint URL must use https.")
    )
  )

/** Whether the URL may be called at an address of this class: plain `http` only within an allowed network. */
export const mayConnect = (protocol: string, addressClass: AddressClass): boolean =>
  addressClass === "allowed" || (addressClass === "public" && protocol === "https:")

/**
 * Returns whether a port is one on which this process listens, or which the settings name: another process of this machine may be the
 * one that listens there.
 */
export const ownPorts = (settings: Settings["Service"]): ((port: number) => boolean) => {
  const urls = [settings.databaseUrl, settings.databaseDirectUrl, settings.redisUrl].flatMap(Option.toArray)
  const named = new Set([
    settings.port,
    ...[settings.adminPort, settings.metricsPort].flatMap(Option.toArray),
    ...urls.map((url) => {
      const { port, protocol } = new URL(Redacted.value(url))
      return Number(port || (protocol.startsWith("redis") ? 6379 : 5432))
    })
  ])
  return (port) => named.has(port) || listening.has(port)
}

/** Returns the networks whose addresses reach this machine: its own addresses, loopback, and what systems take for loopback. */
export const ownNetworks = (): ReadonlyArray<string> => [
  "0.0.0.0/8",
  "127.0.0.0/8",
  "::/128",
  "::1/128",
  ...Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).map(({ address }) => address))
]
