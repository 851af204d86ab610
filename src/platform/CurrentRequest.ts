/** The request that is being answered: its id, what it was sent to, the route that it took, and what went wrong. */
import { Context } from "effect"
import { randomUUID } from "node:crypto"
import { type ProviderOutcomeUnknown, ServiceUnavailable } from "../api/Problems.ts"

export interface CurrentRequestShape {
  /** The caller's `x-request-id` where it is well formed, else a new UUID. Empty outside of a request. */
  readonly id: string
  /** Path and query as they were sent; the router is given a version that it can be trusted with. */
  readonly target: string
  /** The template of its route, once that is known. */
  route: string
  /** The code of the problem that it is answered with, if it is. */
  problem: string | undefined
  /** What its route calls the service being out of order. */
  unavailable: (detail: string) => ServiceUnavailable | ProviderOutcomeUnknown
}

const serviceUnavailable = (detail: string) => new ServiceUnavailable({ detail })

export const CurrentRequest = Context.Reference<CurrentRequestShape>("developer-api/platform/CurrentRequest", {
  defaultValue: () => ({ id: "", target: "", route: "", problem: undefined, unavailable: serviceUnavailable })
})

const wellFormed = /^[A-Za-z0-9._-]{1,128}$/

/** A request as it arrives, with what its `x-request-id` header says. */
export const arriving = (header: string | undefined, target: string): CurrentRequestShape => ({
  id: header !== undefined && wellFormed.test(header) ? header : randomUUID(),
  target,
  route: "",
  problem: undefined,
  unavailable: serviceUnavailable
})
