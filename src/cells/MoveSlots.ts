/** The replication slots of moves. If no target reads a slot, PostgreSQL keeps its log for the slot until the disk is full. */
import { Duration, Effect, Layer, Metric } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { forkPeriodic } from "../work/Supervisor.ts"
import { MetricsEnabled } from "../telemetry/Telemetry.ts"
import { untraced } from "../telemetry/Spans.ts"

const measureEvery = Duration.seconds(15)

const idle = Metric.gauge("move_slots_idle", {
  description: "Replication slots of moves that no target reads: they keep the log of the database"
})

interface Slot {
  /** The project that is being moved; null for a slot that belongs to no move. */
  readonly projectId: string | null
  readonly slot: string
  readonly active: boolean
  /** Bytes of the log that PostgreSQL keeps for the slot. */
  readonly keeps: number
}

/**
 * A SQL expression for the name that the publication, the subscription and the slot of a project have in common. It contains a
 * hash of the project's id, because an id may contain characters that a slot name may not.
 */
export const nameOf = (sql: SqlClient.SqlClient, projectId: Statement.Fragment): Statement.Fragment =>
  sql`'move_' || md5(${projectId})`

export const slots = (sql: SqlClient.SqlClient) => sql<Slot>`
  SELECT slot_name AS slot, active, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), restart_lsn)::float8 AS keeps,
    (SELECT project_id FROM projects WHERE move_state IS NOT NULL AND slot_name = ${nameOf(sql, sql`project_id`)}) AS "projectId"
  FROM pg_replication_slots
  WHERE slot_name LIKE 'move\\_%' AND database = current_database() ORDER BY slot_name`

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    if (!(yield* MetricsEnabled)) return
    const measure = Effect.flatMap(slots(sql), (found) =>
      Metric.update(idle, found.filter(({ active }) => !active).length)
    )
    yield* forkPeriodic("move slots", { interval: measureEvery }, untraced(measure))
  })
)
