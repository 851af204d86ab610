/** State of one HTTP request from arrival to answer, shared by everything that handles it. */
import { Context, Effect } from "effect"
import { type ProviderOutcomeUnknown, ServiceUnavailable } from "../api/Problems.ts"
import { newUuid } from "./Ids.ts"

export interface CurrentRequestShape {
  /** The caller's `x-request-id` if it is well formed, otherwise a new UUIDv7. Empty outside a request. */
  readonly id: string
  /** Path and query as they were sent. */
  readonly target: string
  /** Headers of the answer that do not depend on the handler's result. */
  readonly headers: Record<string, string>
  /** Route template; empty until a route is matched. */
  route: string
  /** The key of the request's token, once it is verified, with the types of events that its project subscribes to. */
  caller: { readonly keyId: string; readonly projectId: string; readonly eventTypes: ReadonlyArray<string> } | undefined
  /** The id of the key that a token names, whether the token is valid or not. */
  namedKeyId: string | undefined
  /**
   * The tool call (MCP) that the request makes; undefined if it makes none. Logs and metrics show the method and status of the
   * call, not of the request.
   */
  call: { readonly method: string; readonly status: number; readonly replayed: boolean } | undefined
  /** Code of the problem that answers the request; undefined for a success. */
  problem: string | undefined
  /** The failure of the database that made the answer a 503. The access log shows it. */
  outage: Error | undefined
  /**
   * Time of arrival, in milliseconds of `performance.now()`, plus the time that the body took to arrive. The maximum time for
   * statements (`StatementTimeout`) counts from here. Undefined outside a request and within `withOwnTime`.
   */
  arrivedAt: number | undefined
  /**
   * Makes the problem for an unavailable service: `ProviderOutcomeUnknown` if the request sends a message, otherwise
   * `ServiceUnavailable`.
   */
  unavailable: (detail: string) => ServiceUnavailable | ProviderOutcomeUnknown
}

const initial: Omit<CurrentRequestShape, "id" | "target" | "headers"> = {
  route: "",
  caller: undefined,
  namedKeyId: undefined,
  call: undefined,
  problem: undefined,
  outage: undefined,
  arrivedAt: undefined,
  unavailable: (detail) => new ServiceUnavailable({ detail })
}

export const CurrentRequest = Context.Reference<CurrentRequestShape>("developer-api-service/platform/CurrentRequest", {
  defaultValue: () => ({ id: "", target: "", headers: {}, ...initial })
})

const wellFormed = /^[A-Za-z0-9._-]{1,128}$/

export const newRequestState = (
  header: string | ReadonlyArray<string> | undefined,
  target: string
): CurrentRequestShape => {
  const id = typeof header === "string" && wellFormed.test(header) ? header : newUuid()
  return { ...initial, id, target, headers: { "x-request-id": id }, arrivedAt: performance.now() }
}

/** Adds headers to the answer of the current request, whether the answer is a success or a problem. */
export const addAnswerHeaders = (headers: Readonly<Record<string, string>>): Effect.Effect<void> =>
  Effect.withFiber((fiber) => {
    Object.assign(fiber.getRef(CurrentRequest).headers, headers)
    return Effect.void
  })
