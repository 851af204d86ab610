/** Limits for endpoints that fail (contract §10). Times are in milliseconds. */

/** Failures in a row that park an endpoint. */
export const failuresToPark = 10

/** Strikes of a failed attempt. A timeout holds a slot for longest and counts most. */
export const strikesOf = { failure: 1, timeout: 3 } as const

/** First pause of a parked endpoint. Each failed probe doubles it, up to `longestPause`. */
export const firstPause = 30_000
export const longestPause = 15 * 60_000

/** Assignments of an UPDATE of `endpoint_health` that forget past failures, so that the endpoint is tried at once. */
export const recovered = `failures = 0, strikes = 0, failing_since = NULL, failed_probes = 0, parked_until = NULL,
  resting_until = NULL, saturated = false, discarding = false`

/** Maximum rest that an endpoint gets by `Retry-After`. */
export const longestRetryAfter = 60 * 60_000

/** Jitter of delays and pauses: 80 to 120 %. `random` is from 0 to 1. */
export const jitter = (random: number): number => 0.8 + 0.4 * random
