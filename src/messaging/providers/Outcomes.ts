/** Outcomes of provider calls, in two tables: by the status of the answer, and by failure (contract §8). */
import { Duration, Option } from "effect"

/** The outcome of one provider call. Error codes are stable and stored with the attempt. */
export type Outcome =
  | { readonly _tag: "accepted"; readonly providerMessageId: string }
  | (Failed & { readonly _tag: "refused" })
  /** The message was certainly not processed. It may be sent again after `retryAfter`. */
  | (Failed & { readonly _tag: "postponed"; readonly retryAfter: Option.Option<Duration.Duration> })
  /** The message may have been processed. */
  | (Failed & { readonly _tag: "unknown" })

interface Failed {
  readonly errorCode: string
  /** The beginning of what the provider answered, without secrets. */
  readonly reason?: string
}

type Meaning = Outcome["_tag"]

/** Outcomes by status: the first row that contains the status applies. `accepted` also requires an answer that can be decoded. */
const statuses: ReadonlyArray<{ readonly from: number; readonly to: number; readonly means: Meaning }> = [
  { from: 200, to: 299, means: "accepted" },
  // Redirects are not followed, and the provider may have processed the message before it redirected.
  { from: 300, to: 399, means: "unknown" },
  // The provider stopped waiting, possibly after it had received the whole request.
  { from: 408, to: 408, means: "unknown" },
  { from: 429, to: 429, means: "postponed" },
  { from: 400, to: 499, means: "refused" },
  { from: 503, to: 503, means: "postponed" },
  // The provider failed while it processed the message, or a gateway lost the provider's answer.
  { from: 500, to: 599, means: "unknown" },
  // All other statuses. No final HTTP answer has one of them.
  { from: 100, to: 999, means: "unknown" }
]

/** Outcomes by error code. A failure before the connection is established is `postponed`, because no request was written. */
const failures = {
  /** No key of this process opens the channel's sealed config, so no call can be made. */
  config_unreadable: "postponed",
  dns_failed: "postponed",
  /** This host lacks file descriptors, ports or memory for a connection. */
  host_exhausted: "postponed",
  /** The connection is refused, or the host is unreachable. */
  connect_failed: "postponed",
  /** The TLS handshake failed, or the certificate does not match the host. */
  tls_failed: "postponed",
  /** The deadline passed before the connection was established. */
  connect_timeout: "postponed",
  /** The deadline passed before the answer was complete. */
  timeout: "unknown",
  /** The connection ended before the answer was complete. */
  connection_lost: "unknown",
  /** The answer is not HTTP, or is a success without the provider's message id. */
  unreadable_answer: "unknown"
} as const satisfies Record<string, Exclude<Meaning, "accepted">>

export type Failure = keyof typeof failures

/**
 * Failures that count for the channel's circuit breaker: the provider cannot be reached, hangs, or cannot be called by this
 * process. An exhausted host says nothing about the channel.
 */
const unanswered = new Set<string>(
  Object.keys(failures).filter((failure) => failure !== "unreadable_answer" && failure !== "host_exhausted")
)

export const isUnanswered = (outcome: Outcome): boolean =>
  outcome._tag !== "accepted" && unanswered.has(outcome.errorCode)

/** Longer `Retry-After` values are reduced to this. */
const longestRetryAfter = Duration.hours(1)

export const meaningOf = (status: number): Meaning =>
  statuses.find(({ from, to }) => from <= status && status <= to)?.means ?? "unknown"

/** Returns the outcome of an answer without a message id. `source` is the prefix of the error code. */
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
