/**
 * The endpoint of a webhook: its key, the bounds of its health, and its retry schedule (contract §10), as data. The row of
 * `endpoint_health` counts its strikes and its failures in a row; a success clears both.
 *
 * - suspect: `strikesToSuspect` strikes, or parked. Its attempts use a separate class of slots, one attempt at a time.
 * - resting: its answer has requested a delay by `Retry-After`, of which at most `longestRetryAfter` is kept.
 * - parked: `failuresToPark` failures. Nothing is sent during a pause. An attempt after the pause is a probe; if it fails, a longer
 *   pause begins.
 * - gone: it has answered 410. Its webhook is disabled. A webhook is also disabled after `failuresToDisable` failures, if the first of
 *   them is at least `WEBHOOK_DISABLE_AFTER` ago.
 */
import { Duration } from "effect"
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../api/schema/Ids.ts"

export interface Endpoint {
  readonly projectId: ProjectId
  readonly installationId: InstallationId
}

/** The key of an endpoint in maps of this process. No id contains the separator. */
export const keyOf = ({ installationId, projectId }: Endpoint) => `${projectId}\u0000${installationId}`

/** Strikes of a failed attempt. A timeout counts three, because the attempt has held its slot for longest. */
export const strikesOf = { failure: 1, timeout: 3 }

/** Number of strikes after which an endpoint is suspect. The column `suspect` of `endpoint_health` has the same number. */
export const strikesToSuspect = 3

/** Number of failures in a row after which an endpoint is parked: nothing is sent to it during a pause. */
export const failuresToPark = 10

/** First pause of a parked endpoint, in milliseconds. Each failed probe after a pause doubles it, up to `longestPause`. */
export const firstPause = 30_000

/** Longest pause of a parked endpoint, in milliseconds. */
export const longestPause = 15 * 60_000

/** Maximum delay that an endpoint can request by `Retry-After`, in milliseconds. */
export const longestRetryAfter = 60 * 60_000

/** Whether the endpoint is gone permanently, so that its webhook is disabled. */
export const isGone = (statusCode: number | null): boolean => statusCode === 410

/** Minimum number of failures in a row before a webhook is disabled as failing, however long they take. */
const failuresToDisable = 10

/** An SQL condition over `endpoint_health`: no attempt has succeeded for this time, and enough attempts have failed since. */
export const hasFailedTooLong = (sql: SqlClient.SqlClient, disableAfterMillis: number) => sql`coalesce(
    failures >= ${failuresToDisable}::int AND failing_since <= now() - ${disableAfterMillis}::float8 * interval '1 millisecond', false
  )`

/** Assignments for an UPDATE of `endpoint_health`. They reset failures and pauses, so that the endpoint is tried at once. */
export const recovered = `failures = 0, strikes = 0, failing_since = NULL, failed_probes = 0,
  parked_until = NULL, resting_until = NULL, saturated = false, discarding = false`

/** The delays between the attempts of a delivery. If the attempt after the last delay fails, the delivery is dead. */
export type RetrySchedule = ReadonlyArray<Duration.Duration>

/** Returns the factor by which delays and pauses are multiplied: 0.8 to 1.2. `random` is from 0 to 1. */
export const jitter = (random: number): number => 0.8 + 0.4 * random

/** Returns the age at which a delivery expires: the sum of the delays of a retry schedule, without jitter, plus one day. */
export const maxAge = (schedule: RetrySchedule): Duration.Duration => schedule.reduce(Duration.sum, Duration.days(1))
