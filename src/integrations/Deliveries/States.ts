/**
 * States of a delivery and the moves between them (contract §10), as data; and the move that the outcome of an attempt makes.
 *
 * The statement that appends an event makes the delivery `pending`. A claim leases it: `attempts` and `leased_until` are
 * the fence of the lease, so a result is recorded only for the attempt that is still in flight.
 */
import { Duration, Option } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { isSuccess, type Outcome } from "../Sender.ts"
import type { Claim } from "./Claim.ts"
import type { Failing, Result } from "./Record.ts"

export const states = ["pending", "delivering", "delivered", "dead"] as const
export type State = (typeof states)[number]

export const moves = [
  { on: "claimed", from: "pending", to: "delivering" },
  { on: "succeeded", from: "delivering", to: "delivered" },
  /** The attempt failed and the schedule has another. */
  { on: "failed", from: "delivering", to: "pending" },
  /** The attempt failed and was the last of the schedule, or the endpoint is gone for good. */
  { on: "exhausted", from: "delivering", to: "dead" },
  /** The worker died or its lease expired. The outcome is unknown, so the attempt is repeated. */
  { on: "lease_lost", from: "delivering", to: "pending" },
  /** The worker shuts down before the attempt is finished. */
  { on: "released", from: "delivering", to: "pending" },
  /** Claimed ahead and returned before an attempt was made. */
  { on: "unsent", from: "delivering", to: "pending" },
  /** Its webhook is disabled. */
  { on: "disabled", from: "pending", to: "dead" },
  /** Its replay is cancelled. */
  { on: "cancelled", from: "pending", to: "dead" },
  /** Older than the whole retry schedule. */
  { on: "expired", from: "pending", to: "dead" },
  /** The retry operation. */
  { on: "retried", from: "dead", to: "pending" }
] as const satisfies ReadonlyArray<{ readonly on: string; readonly from: State; readonly to: State }>

export type Move = (typeof moves)[number]["on"]

/** Returns the state that a move leads to. */
export const after = (on: Move): State => moves.find((move) => move.on === on)?.to ?? "pending"

/** Returns the states that a move starts from and leads to, as literals of a statement. */
export const stepOf = (
  sql: SqlClient.SqlClient,
  on: Move
): { readonly from: Statement.Fragment; readonly to: Statement.Fragment } => {
  const { from, to } = moves.find((move) => move.on === on) ?? moves[0]
  return { from: sql.literal(`'${from}'`), to: sql.literal(`'${to}'`) }
}

/** Strikes of a failed attempt. A timeout holds a slot for longest and counts most. */
const strikesOf = { failure: 1, timeout: 3 }

/** Longest pause of a parked endpoint, in milliseconds. */
export const longestPause = 15 * 60_000

/** Maximum rest, in milliseconds, that an endpoint gets by `Retry-After`. */
const longestRetryAfter = 60 * 60_000

/** Jitter of delays and pauses: 80 to 120 %. `random` is from 0 to 1. */
const jitter = (random: number): number => 0.8 + 0.4 * random

type Schedule = ReadonlyArray<Duration.Duration>

/** Times of an attempt, in milliseconds. */
interface Times {
  readonly startedAt: number
  readonly finishedAt: number
}

/** Whether the endpoint is gone permanently, so that its webhook is disabled. */
export const isGone = (statusCode: number | null): boolean => statusCode === 410

/** Returns the result of an attempt. `random` is from 0 to 1. */
export const resultOf = (claim: Claim, outcome: Outcome, times: Times, schedule: Schedule, random: number): Result => {
  const answer = outcome._tag === "answered" ? outcome : null
  const result = {
    ...returnedBy(claim, "unsent", times),
    statusCode: answer?.status ?? null,
    errorCode: outcome._tag === "failed" ? outcome.code : null,
    responseBody: answer?.body ?? null,
    jitter: jitter(random)
  }
  if (isSuccess(outcome)) return { ...result, on: "succeeded" }
  const restFor = restOf(outcome)
  const strikes = result.errorCode === "timeout" ? strikesOf.timeout : strikesOf.failure
  const delay = schedule[claim.retries]
  if (delay === undefined || isGone(result.statusCode)) return { ...result, on: "exhausted", restFor, strikes }
  return { ...result, on: "failed", retryIn: Duration.toMillis(delay) * result.jitter, restFor, strikes }
}

/** Returns the result of a lease that is returned without an outcome. */
export const returnedBy = (
  { attempt, endpointUrl, id, installationId, leasedUntil, projectId, urlVersion }: Claim,
  on: "released" | "unsent",
  { finishedAt, startedAt }: Times
): Result => ({
  projectId,
  installationId,
  id,
  attempt,
  leasedUntil,
  endpointUrl,
  urlVersion,
  on,
  statusCode: null,
  errorCode: "interrupted",
  responseBody: null,
  startedAt,
  finishedAt,
  retryIn: 0,
  restFor: 0,
  strikes: 0,
  jitter: 1
})

/** Sum of the longest delays of a retry schedule and of a day: the age at which a delivery expires. */
export const maxAge = (schedule: Schedule): Duration.Duration => schedule.reduce(Duration.sum, Duration.days(1))

/**
 * Returns when endpoints have failed for `disableAfter`. Retries and probes follow each other within the longest delay or pause,
 * jitter included; a rest and what is late by other work are at most an hour.
 */
export const failingOf = (schedule: Schedule, disableAfter: Duration.Duration): Failing => ({
  forMillis: Duration.toMillis(disableAfter),
  quietMillis: Math.max(longestPause, ...schedule.map(Duration.toMillis)) * jitter(1) + longestRetryAfter,
  attempts: schedule.length + 1
})

/** Delay that a busy endpoint requests by `Retry-After`, in milliseconds. */
const restOf = (outcome: Outcome): number =>
  outcome._tag === "answered" && (outcome.status === 429 || outcome.status === 503)
    ? Math.min(Option.match(outcome.retryAfter, { onNone: () => 0, onSome: Duration.toMillis }), longestRetryAfter)
    : 0
