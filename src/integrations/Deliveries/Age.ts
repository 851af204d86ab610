/** The age of deliveries by their ids, which begin with their creation time: the primary key orders them by age. */

/** The lower bound of the ids of deliveries that were created at `at` or later. */
export const firstIdAt = (at: Date): string => `dlv_${Math.max(0, at.getTime()).toString(16).padStart(12, "0")}`
