/** Names and addresses that reach only this machine: localhost and its subdomains (RFC 6761), 127.0.0.0/8 and ::1. */
import { Result } from "effect"
import { NetAddress } from "effect/net"

const authority = /^(?:\[(?<address>[^\]]*)\]|(?<name>[^:]*))(?::\d*)?$/

/** Whether a `Host` header, with or without a port, has one of these names. */
export const hasName = (host: string, names: ReadonlyArray<string>): boolean =>
  names.includes(authority.exec(host.toLowerCase())?.groups?.["name"] ?? "")

/** Whether a `Host` header, with or without a port, is a name or an address of the loopback. */
export const isLoopbackHost = (host: string): boolean => {
  const { address, name = "" } = authority.exec(host.toLowerCase())?.groups ?? {}
  const plain = name.replace(/\.$/, "")
  if (plain === "localhost" || plain.endsWith(".localhost")) return true
  const parsed: Result.Result<NetAddress.IpAddress, unknown> =
    address === undefined ? NetAddress.ipv4FromString(plain) : NetAddress.ipv6FromString(address)
  return Result.isSuccess(parsed) && NetAddress.isLoopback(parsed.success)
}
