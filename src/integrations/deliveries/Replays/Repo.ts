/** SQL of the replays that operators start, list and cancel. */
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../../../api/schema/Ids.ts"
import type { EventType } from "../../../api/integrations/Events.ts"
import { recordAction } from "../../../platform/operators/Audit.ts"
import { selectList } from "../../../platform/database/Columns.ts"
import { stepOf } from "../../../api/schema/States.ts"
import { firstIdAt } from "../../../platform/NewId.ts"
import { servedProject } from "../../../platform/operators/ProjectUnknown.ts"
import type { Range } from "../../../platform/operators/Search.ts"
import { type Filter, filters, type Selection } from "./Selection.ts"
import { type EndReason, replays, type State } from "./States.ts"

type Sql = SqlClient.SqlClient

export interface Listed {
  readonly replayId: string
  readonly installationId: InstallationId
  readonly since: string
  readonly until: string
  readonly eventTypes: ReadonlyArray<EventType>
  readonly statuses: ReadonlyArray<string>
  readonly pace: number
  readonly state: State
  /**
   * `matched` is the number of deliveries found when the replay began. `queued` is the number of deliveries created since then.
   */
  readonly matched: number
  readonly queued: number
  /**
   * Number of deliveries that were found and not repeated, because they were pruned or retried, or because the webhook no
   * longer subscribes to their type. 0 until the replay is completed.
   */
  readonly skipped: number
  readonly endReason: EndReason | null
  readonly createdAt: string
  readonly finishedAt: string | null
}

const columns = selectList({
  replayId: "id",
  installationId: "installation_id",
  since: ["since", "timestamptz"],
  until: ["until", "timestamptz"],
  eventTypes: "event_types",
  statuses: "statuses",
  pace: "pace",
  state: "state",
  matched: "matched",
  queued: "queued",
  skipped: "CASE WHEN state = 'completed' THEN greatest(0, matched - queued) ELSE 0 END",
  endReason: "end_reason",
  createdAt: ["created_at", "timestamptz"],
  finishedAt: ["finished_at", "timestamptz"]
})

export const list = (sql: Sql, projectId: ProjectId, { after, limit }: Range) => sql<Listed>`
  SELECT ${sql.literal(columns)} FROM replays
  WHERE project_id = ${projectId} ${after === null ? sql.literal("") : sql`AND id < ${after}`}
  ORDER BY id DESC LIMIT ${limit + 1}::int`

export const webhook = (sql: Sql, projectId: ProjectId, installationId: string) => sql<{
  readonly enabled: boolean
  readonly eventTypes: ReadonlyArray<EventType>
}>`
  SELECT enabled, event_types AS "eventTypes" FROM webhooks WHERE project_id = ${projectId} AND installation_id = ${installationId}`

interface Start extends Selection {
  readonly id: string
  readonly pace: number
  readonly matched: number
  readonly actor: string
}

const detailOf = (filter: Filter, { eventTypes, installationId, matched, pace, since, until }: Start) => ({
  installationId,
  since,
  until,
  eventTypes,
  status: filter,
  pace,
  matched
})

/** Starts a replay, unless a replay with this id exists. Returns no row if this database does not serve the project. */
export const start = (sql: Sql, replay: Start) => sql`
  WITH ${servedProject(sql, replay.projectId)},
  started AS (
    INSERT INTO replays (project_id, id, installation_id, since, until, event_types, statuses, pace, state, matched,
      position, paced_at, created_at)
    SELECT project_id, ${replay.id}::text, ${replay.installationId}::text, ${replay.since}::timestamptz,
      ${replay.until}::timestamptz, ${[...replay.eventTypes]}::text[], ${[...filters[replay.filter]]}::text[],
      ${replay.pace}::int, 'running', ${replay.matched}::int, ${firstIdAt("dlv", replay.since.getTime())}::text, now(), now()
    FROM project
    ON CONFLICT (project_id, id) DO NOTHING
    RETURNING project_id
  ),
  ${recordAction(
    sql,
    { actor: replay.actor, action: "replay.start", target: replay.id, detail: detailOf(replay.filter, replay) },
    "started"
  )}
  SELECT FROM project`

/**
 * Sets a running replay to `cancelling`. A replay in another state stays unchanged. Returns the state afterwards. Returns no row
 * if the replay does not exist, or if this database does not serve the project.
 */
export const cancel = (sql: Sql, actor: string, projectId: ProjectId, id: string) => {
  const { from, to } = stepOf(replays, "cancel")
  return sql<{ readonly state: State; readonly matched: number; readonly queued: number }>`
    WITH ${servedProject(sql, projectId)},
    target AS MATERIALIZED (
      SELECT state, matched, queued FROM project JOIN replays USING (project_id) WHERE id = ${id}
      FOR NO KEY UPDATE OF replays
    ),
    cancelled AS (
      UPDATE replays SET state = ${to}, end_reason = ${"operator" satisfies EndReason} FROM target
      WHERE replays.project_id = ${projectId} AND replays.id = ${id} AND target.state = ${from}
      RETURNING replays.project_id, replays.state
    ),
    ${recordAction(sql, { actor, action: "replay.cancel", target: id }, "cancelled")}
    SELECT coalesce((SELECT state FROM cancelled), state) AS state, matched, queued FROM target`
}
