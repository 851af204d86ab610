/**
 * Checks whether a delivery may connect to an address. The address must be globally reachable according to IANA's
 * special-purpose registries, or be in a network that the operator has allowed.
 */
import { Option } from "effect"
import { BlockList, isIP, isIPv4, isIPv6 } from "node:net"

/** `allowed`: in an allowed network, public or not. `refused`: neither public nor allowed, or not an address. */
export type AddressClass = "public" | "allowed" | "refused"

/** A set of networks, such as those of `WEBHOOK_ALLOWED_NETWORKS`. */
export interface AllowedNetworks {
  readonly isEmpty: boolean
  readonly has: (address: string) => boolean
}

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

/** Keeps a list for each family, because a BlockList applies `::/0` to IPv4 as well. */
const listOf = (networks: ReadonlyArray<Network>): AllowedNetworks => {
  const lists = { ipv4: new BlockList(), ipv6: new BlockList() }
  for (const { address, family, prefix } of networks) lists[family].addSubnet(address, prefix, family)
  return {
    isEmpty: networks.length === 0,
    has: (address) => (isIPv4(address) ? lists.ipv4.check(address, "ipv4") : lists.ipv6.check(address, "ipv6"))
  }
}

interface Network {
  readonly address: string
  readonly prefix: number
  readonly family: "ipv4" | "ipv6"
}

/** Parses `10.0.0.0/8`, `fd00::/8`, or a single address. Bits beyond the prefix are ignored. */
const parseNetwork = (text: string): Option.Option<Network> => {
  const [, address = "", digits] = /^([0-9A-Fa-f:.]+)(?:\/([0-9]{1,3}))?$/.exec(text) ?? []
  const version = isIP(address)
  const bits = version === 4 ? 32 : 128
  const prefix = digits === undefined ? bits : Number(digits)
  if (version === 0 || prefix > bits) return Option.none()
  return Option.some({ address, prefix, family: version === 4 ? "ipv4" : "ipv6" })
}

/** Parses networks in CIDR notation, which the settings have validated. An empty list allows only public addresses. */
export const networksOf = (networks: ReadonlyArray<string>): AllowedNetworks => listOf(known(networks))

const known = (networks: ReadonlyArray<string>) => networks.flatMap((text) => Option.toArray(parseNetwork(text)))

const special = listOf(known([...specialIPv4, ...specialIPv6]))
const reachable = listOf(known([...reachableIPv4, ...reachableIPv6]))
const unicast = listOf(known(unicastIPv6))

/**
 * Classifies an IPv4 or IPv6 address (without brackets). An IPv6 address that embeds an IPv4 address (IPv4-mapped, NAT64,
 * 6to4) has the class of the IPv4 address, so an allowed IPv4 network also allows these forms. Text that is no address is
 * refused.
 */
export const classify = (address: string, allowed: AllowedNetworks): AddressClass => {
  if (isIPv4(address)) {
    if (allowed.has(address)) return "allowed"
    return special.has(address) && !reachable.has(address) ? "refused" : "public"
  }
  // The URL parser returns the canonical form of every spelling. It rejects zones (`fe80::1%eth0`), which no public address has.
  const canonical = isIPv6(address) ? URL.parse(`http://[${address}]/`)?.hostname.slice(1, -1) : undefined
  if (canonical === undefined) return "refused"
  if (allowed.has(canonical)) return "allowed"
  return Option.match(embedded(canonical), {
    onSome: (ipv4) => classify(ipv4, allowed),
    onNone: () =>
      unicast.has(canonical) && (reachable.has(canonical) || !special.has(canonical)) ? "public" : "refused"
  })
}

/** Returns the IPv4 address in `::ffff:0:0/96` (RFC 4291), `64:ff9b::/96` (RFC 6052) or `2002::/16` (RFC 3056). */
const embedded = (canonical: string): Option.Option<string> => {
  const groups = groupsOf(canonical)
  const starts = (...start: ReadonlyArray<number>) => start.every((group, i) => groups[i] === group)
  if (starts(0, 0, 0, 0, 0, 0xffff) || starts(0x64, 0xff9b, 0, 0, 0, 0)) return Option.some(dotted(groups.slice(6)))
  if (starts(0x2002)) return Option.some(dotted(groups.slice(1, 3)))
  return Option.none()
}

const dotted = (groups: ReadonlyArray<number>) => groups.flatMap((group) => [group >> 8, group & 0xff]).join(".")

/** Returns the eight groups of an address in canonical form (RFC 5952), where `::` stands for groups of zeros. */
const groupsOf = (canonical: string): ReadonlyArray<number> => {
  const [head = [], tail = []] = canonical
    .split("::")
    .map((part) => (part === "" ? [] : part.split(":").map((group) => Number.parseInt(group, 16))))
  return [...head, ...Array.from({ length: 8 - head.length - tail.length }, () => 0), ...tail]
}
