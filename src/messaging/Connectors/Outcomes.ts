/** What follows from a provider's answer, or from having none (contract §8): two tables, and what reads them. */
import { Duration, Option } from "effect"
import type { Outcome } from "../Connectors.ts"

export type Meaning = Outcome["_tag"]

/** Of several rows that a status is in, the first counts. `accepted` still wants an answer that can be read. */
export const statuses: ReadonlyArray<{ readonly from: number; readonly to: number; readonly means: Meaning }> = [
  { from: 200, to: 299, means: "accepted" },
  // No redirect is followed, and who redirects may have done the work before.
  { from: 300, to: 399, means: "unknown" },
  // The provider gave up on the request, maybe with all of it in hand.
  { from: 408, to: 408, means: "unknown" },
  { from: 429, to: 429, means: "postponed" },
  { from: 400, to: 499, means: "refused" },
  { from: 503, to: 503, means: "postponed" },
  // It broke at work, or a gateway before it doesn't know.
  { from: 500, to: 599, means: "unknown" },
  // No status that HTTP knows.
  { from: 100, to: 999, means: "unknown" }
]

/** By error code. A request is written only when its connection stands, so that before that nothing was processed. */
export const failures = {
  /** The host's name leads nowhere, or nobody could tell. */
  dns_failed: "postponed",
  /** Nobody accepts connections, or the network doesn't lead there. */
  connect_failed: "postponed",
  /** No TLS, or not with whom the URL names. */
  tls_failed: "postponed",
  /** The deadline passed before the connection stood. */
  connect_timeout: "postponed",
  /** The deadline passed before the answer was whole. */
  timeout: "unknown",
  /** The connection ended before the answer was whole. */
  connection_lost: "unknown",
  /** No HTTP, another protocol, or a success without the provider's id for the message. */
  unreadable_answer: "unknown"
} as const satisfies Record<string, Exclude<Meaning, "accepted">>

export type Failure = keyof typeof failures

/** Failures that say that the provider can't be reached or hangs. */
const unanswered = new Set<string>(Object.keys(failures).filter((failure) => failure !== "unreadable_answer"))

/** Whether a call has ended without an answer of the provider. */
export const isUnanswered = (outcome: Outcome): boolean =>
  outcome._tag !== "accepted" && unanswered.has(outcome.errorCode)

/** Longer than this no provider is left alone. */
const longestRetryAfter = Duration.hours(1)

export const meaningOf = (status: number): Meaning =>
  statuses.find(({ from, to }) => from <= status && status <= to)?.means ?? "unknown"

/** What a status says that comes without the provider's id for the message; `source` is whose status it is. */
export const byStatus = (
  source: "http" | "telegram",
  status: number,
  retryAfter: Option.Option<Duration.Duration>
): Outcome => {
  const means = meaningOf(status)
  return means === "accepted" ? byFailure("unreadable_answer") : outcome(means, `${source}_${status}`, retryAfter)
}

export const byFailure = (failure: Failure): Outcome => outcome(failures[failure], failure, Option.none())

const outcome = (
  means: Exclude<Meaning, "accepted">,
  errorCode: string,
  retryAfter: Option.Option<Duration.Duration>
): Outcome =>
  means === "postponed"
    ? { _tag: means, errorCode, retryAfter: Option.map(retryAfter, (delay) => Duration.min(delay, longestRetryAfter)) }
    : { _tag: means, errorCode }
