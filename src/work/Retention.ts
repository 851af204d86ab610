/** Deletes records after their retention, in small batches, so that other statements hardly wait. */
import { Clock, Duration, Effect, Layer } from "effect"
import { SqlClient, type SqlError, type Statement } from "effect/sql"
import { isAwake } from "../platform/MoveState.ts"
import { Settings } from "../platform/Settings.ts"
import { untraced } from "../telemetry/Telemetry.ts"
import { forkPeriodic } from "./Supervisor.ts"

export const batch = 1_000
const pause = Duration.minutes(1)

/**
 * The records of a table whose time in the column `age` is before `horizon`. The table needs an index of `project_id` and this
 * column.
 */
interface Expired {
  readonly table: string
  readonly age: string
  readonly horizon: Date
  /** A value of `project_id` of records that belong to no project. */
  readonly common?: string
  /** A further condition, beginning with AND. `project` is the row of the record's project. */
  readonly condition?: Statement.Fragment
}

/**
 * Deletes one batch, in each project the oldest records first. Returns whether there may be more records to delete. SKIP LOCKED
 * lets several processes share the work. The rows are found by `ctid`, because a join by key could be planned as a read of the
 * whole table. The `ctid` of a locked row does not change.
 */
export const prune = (sql: SqlClient.SqlClient, { age, common, condition, horizon, table }: Expired) => {
  const most = sql.literal(String(batch))
  const others = common === undefined ? sql.literal("") : sql`UNION ALL SELECT ${common}`
  return sql<{ readonly more: boolean }>`
    WITH gone AS (
      DELETE FROM ${sql(table)} WHERE ctid = ANY(ARRAY(
        SELECT expired.row FROM (SELECT project_id FROM projects WHERE ${isAwake(sql, "project_id")} ${others}) project, LATERAL (
          SELECT ctid AS row FROM ${sql(table)}
          WHERE project_id = project.project_id AND ${sql(age)} < ${horizon}::timestamptz
            ${condition ?? sql.literal("")}
          ORDER BY ${sql(age)} LIMIT ${most} FOR UPDATE SKIP LOCKED
        ) expired LIMIT ${most}
      ))
      RETURNING 1
    )
    SELECT count(*) = ${most} AS more FROM gone`.pipe(Effect.map(([row]) => row?.more === true))
}

export interface Retention {
  readonly name: string
  /** The time for which the records are kept. */
  readonly kept: (settings: Settings["Service"]) => Duration.Duration
  /**
   * Deletes a batch of records from before `horizon`, a time by the clock of this process. `age` is how long ago that is, in milliseconds,
   * for statements that take the time from the database. If it returns true, more may be left, and the next step follows at once.
   */
  readonly step: (sql: SqlClient.SqlClient, horizon: Date, age: number) => Effect.Effect<boolean, SqlError.SqlError>
}

/** Runs a step of each kind once a minute. */
export const pruning = (retentions: ReadonlyArray<Retention>) =>
  Layer.effectDiscard(
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const settings = yield* Settings
      for (const { kept, name, step } of retentions) {
        const age = Duration.toMillis(kept(settings))
        const pruned = Effect.flatMap(Clock.currentTimeMillis, (now) => step(sql, new Date(now - age), age))
        yield* forkPeriodic(name, { interval: pause }, untraced(pruned))
      }
    })
  )
