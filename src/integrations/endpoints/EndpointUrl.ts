/** Checks the URL of a webhook (contract §10). The addresses of a host name may change, so each delivery checks them. */
import { type Option, Result } from "effect"
import { isIP } from "node:net"
import { hostOf } from "../../outbound/Names.ts"
import { type AddressClass, classify, mayContain, type Networks } from "./Addresses.ts"

/** An allowed URL. Its host name may still resolve to addresses that are not allowed. */
export interface Endpoint {
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
export const checkEndpoint = (text: string, allowed: Networks): Result.Result<Endpoint, string> => {
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
export const endpointFault = (text: string, allowed: Networks): Option.Option<string> =>
  Result.getFailure(
    Result.flatMap(checkEndpoint(text, allowed), ({ host, isAddress, url }) =>
      url.protocol === "https:" || isAddress || mayContain(allowed, host)
        ? Result.void
        : Result.fail("The endpoint URL must use https.")
    )
  )

/** Whether the URL may be called at an address of this class: plain `http` only within an allowed network. */
export const mayConnect = (protocol: string, addressClass: AddressClass): boolean =>
  addressClass === "allowed" || (addressClass === "public" && protocol === "https:")
