/**
 * Counts the attempts of deliveries, by minute, outcome and range of durations. The statement that records a result also
 * counts its attempt, so both are committed together. An attempt that a shutdown interrupts is not counted.
 */
import type { SqlClient } from "effect/sql"
import type { ProjectId } from "../../api/schema/Ids.ts"

/** Number of ranges between a duration and its double: a range ends 19 % above its start. */
const perDoubling = 4

/** Returns the number of the range (bucket) of a duration. Range 0 ends at 1 ms. */
export const bucketOf = (millis: number): number =>
  millis < 1 ? 0 : Math.min(100, 1 + Math.floor(perDoubling * Math.log2(millis)))

/** Returns the end of a range in milliseconds. */
export const endOf = (bucket: number): number => 2 ** (bucket / perDoubling)

/** Retention: one day longer than the longest period of the console's charts. */
export const retentionDays = 8

/** The `project_id` of rows that count the attempts of all projects. */
export const all = ""

/**
 * Returns a common table expression that counts the attempts in `recorded`, both for their project and for all projects.
 * `recorded` has the columns `project_id`, `on_move` (the outcome) and `bucket`.
 */
export const countAttempts = (sql: SqlClient.SqlClient, workerId: bigint) => sql`
  counted AS (
    INSERT INTO attempt_minutes AS minutes (project_id, minute, worker_id, delivered, bucket, attempts)
    SELECT coalesce(project_id, ${all}), date_trunc('minute', now()), ${workerId}::bigint, delivered, bucket, count(*)::int
    FROM (SELECT project_id, on_move = 'succeeded' AS delivered, bucket FROM recorded
      WHERE on_move IN ('succeeded', 'failed', 'exhausted')) attempt
    GROUP BY GROUPING SETS ((project_id, delivered, bucket), (delivered, bucket))
    ON CONFLICT (project_id, minute, worker_id, delivered, bucket) DO UPDATE SET attempts = minutes.attempts + excluded.attempts
  )`

/** Number of attempts with one outcome and one range of durations, in one slice of time. Slice 0 ends now. */
interface Counted {
  readonly slice: number
  readonly delivered: boolean
  readonly bucket: number
  readonly attempts: number
}

/**
 * Counts the attempts of a project, or of all projects if `projectId` is null, in the last `slices` slices of `minutes` minutes.
 */
export const read = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId | null,
  { minutes, slices }: { readonly minutes: number; readonly slices: number }
) => sql<Counted>`
  SELECT ((extract(epoch FROM date_trunc('minute', now()) - minute) / 60)::int / ${minutes}::int) AS slice, delivered, bucket,
    sum(attempts)::int AS attempts
  FROM attempt_minutes
  WHERE project_id = ${projectId ?? all} AND minute > date_trunc('minute', now()) - ${slices * minutes}::int * interval '1 minute'
  GROUP BY 1, 2, 3`

/** The attempts in a slice of time. Slice 0 ends now. The percentiles, in milliseconds, are null if there is no attempt. */
export interface Slice {
  readonly slice: number
  readonly delivered: number
  readonly failed: number
  readonly p50: number | null
  readonly p95: number | null
}

const sum = (counted: ReadonlyArray<Counted>) => counted.reduce((sum, { attempts }) => sum + attempts, 0)

/** Returns the quantile `q` of the durations in milliseconds, rounded up to the end of a range. Null if nothing was counted. */
const quantile = (counted: ReadonlyArray<Counted>, q: number): number | null => {
  let left = Math.ceil(q * sum(counted))
  const found = counted
    .toSorted((one, other) => one.bucket - other.bucket)
    .find(({ attempts }) => (left -= attempts) <= 0)
  return found === undefined ? null : endOf(found.bucket)
}

export const slicesOf = (counted: ReadonlyArray<Counted>, slices: number): ReadonlyArray<Slice> =>
  Array.from({ length: slices }, (_, slice) => {
    const own = counted.filter((one) => one.slice === slice)
    const delivered = sum(own.filter((one) => one.delivered))
    return { slice, delivered, failed: sum(own) - delivered, p50: quantile(own, 0.5), p95: quantile(own, 0.95) }
  })
