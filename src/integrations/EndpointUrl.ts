/** What a webhook's URL tells by itself of whether it may be called (contract §10); its addresses are judged at each call. */
import { type Option, Result } from "effect"
import { isIP } from "node:net"
import { hostOf } from "../platform/outbound/Host.ts"
import { type AllowedNetworks, judge, type Judgement } from "./Addresses.ts"

/** A URL that may be called, if its host name leads to an address that may be connected to. */
export interface Endpoint {
  readonly url: URL
  /** A name, or an address without brackets in its one canonical form. */
  readonly host: string
  readonly isAddress: boolean
}

/**
 * Checks scheme, credentials, fragment and a literal address, in any spelling that the URL standard accepts; fails with
 * what is wrong, for a person. With plain `http` a host name passes when networks are allowed at all: whether it leads
 * into one, each call sees.
 */
export const checkEndpoint = (text: string, allowed: AllowedNetworks): Result.Result<Endpoint, string> => {
  const url = URL.parse(text)
  if (url === null) return Result.fail("The endpoint URL can't be read.")
  if (url.protocol !== "https:" && url.protocol !== "http:") return Result.fail("The endpoint URL must use https.")
  if (url.username !== "" || url.password !== "") return Result.fail("The endpoint URL must not hold credentials.")
  // An empty fragment is one, too: `hash` hides it.
  if (url.href.includes("#")) return Result.fail("The endpoint URL must not have a fragment.")
  const host = hostOf(url)
  const isAddress = isIP(host) !== 0
  const judgement = isAddress ? judge(host, allowed) : allowed.isEmpty ? "public" : "allowed"
  if (judgement === "refused") return Result.fail("The endpoint's address is not public.")
  if (!mayConnect(url, judgement)) return Result.fail("The endpoint URL must use https.")
  return Result.succeed({ url, host, isAddress })
}

/** What is wrong with an endpoint's URL, for a person; none if it is taken. */
export const unacceptable = (text: string, allowed: AllowedNetworks): Option.Option<string> =>
  Result.getFailure(checkEndpoint(text, allowed))

/** Whether the URL may be called at an address of this judgement: plain `http` only within an allowed network. */
export const mayConnect = (url: URL, judgement: Judgement): boolean =>
  judgement === "allowed" || (judgement === "public" && url.protocol === "https:")
