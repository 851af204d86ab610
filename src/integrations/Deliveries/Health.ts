/** How an endpoint that fails is left alone (contract §10). Times are in milliseconds. */

/** So many failures in a row park an endpoint. */
export const failuresToPark = 10

/** The first pause of a parked endpoint; each failed probe doubles it, up to the longest. */
export const firstPause = 30_000
export const longestPause = 15 * 60_000

/** No endpoint is left alone for longer because it asks so. */
export const longestRetryAfter = 60 * 60_000

/** Delays and pauses are spread by a fifth either way, so that what failed together doesn't come back together. */
export const spread = (random: number): number => 0.8 + 0.4 * random
