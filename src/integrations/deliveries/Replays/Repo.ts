/** SQL of the replays that operators start, list and cancel. */
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../../../api/schema/Ids.ts"
import type { EventType } from "../../../api/integrations/Events.ts"
import { recordAction } from "../../../platform/operators/Audit.ts"
import { selectList } from "../../../platform/database/Columns.ts"
import { firstIdAt } from "../../../platform/NewId.ts"
import { servedProject } from "../../../platform/operators/ProjectUnknown.ts"
import type { Range } from "../../../platform/operators/Search.ts"

type Sql = SqlClient.SqlClient

/** Which events a replay sends again, by what has become of them at the endpoint. */
export const filterNames = ["dead", "delivered", "all"] as const
export type Filter = (typeof filterNames)[number]

/** A replay is completed when it has read all events of its range, and cancelled by an operator or with its webhook disabled. */
type State = "running" | "completed" | "cancelled"

export interface Listed {
  readonly replayId: string
  readonly installationId: InstallationId
  readonly since: string
  readonly until: string
  readonly eventTypes: ReadonlyArray<EventType>
  readonly status: Filter
  readonly state: State
  /** Number of deliveries that the replay has made. */
  readonly made: number
  readonly createdAt: string
  readonly finishedAt: string | null
}

const columns = selectList({
  replayId: "id",
  installationId: "installation_id",
  since: ["since", "timestamptz"],
  until: ["until", "timestamptz"],
  eventTypes: "event_types",
  status: "status",
  state: "state",
  made: "made",
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

interface Start {
  readonly projectId: ProjectId
  readonly id: string
  readonly installationId: string
  /** Events of this time or later. */
  readonly since: Date
  /** Events before this time. */
  readonly until: Date
  readonly eventTypes: ReadonlyArray<EventType>
  readonly filter: Filter
  readonly actor: string
}

/** Starts a replay, unless a replay with this id exists. Returns no row if this database does not serve the project. */
export const start = (sql: Sql, { actor, filter, id, projectId, ...range }: Start) => sql`
  WITH ${servedProject(sql, projectId)},
  started AS (
    INSERT INTO replays (project_id, id, installation_id, since, until, event_types, status, state, position, created_at)
    SELECT project_id, ${id}::text, ${range.installationId}::text, ${range.since}::timestamptz, ${range.until}::timestamptz,
      ${[...range.eventTypes]}::text[], ${filter}::text, 'running', ${firstIdAt("evt", range.since.getTime())}::text, now()
    FROM project
    ON CONFLICT (project_id, id) DO NOTHING
    RETURNING project_id
  ),
  ${recordAction(sql, { actor, action: "replay.start", target: id, detail: { ...range, status: filter } }, "started")}
  SELECT FROM project`

/**
 * Cancels a running replay. A replay in another state stays unchanged. Returns the state before. Returns no row if the replay
 * does not exist, or if this database does not serve the project.
 */
export const cancel = (sql: Sql, actor: string, projectId: ProjectId, id: string) => sql<{
  readonly state: State
  readonly made: number
}>`
  WITH ${servedProject(sql, projectId)},
  target AS MATERIALIZED (
    SELECT state, made FROM project JOIN replays USING (project_id) WHERE id = ${id} FOR NO KEY UPDATE OF replays
  ),
  cancelled AS (
    UPDATE replays SET state = 'cancelled', finished_at = now() FROM target
    WHERE replays.project_id = ${projectId} AND replays.id = ${id} AND target.state = 'running'
    RETURNING replays.project_id
  ),
  ${recordAction(sql, { actor, action: "replay.cancel", target: id }, "cancelled")}
  SELECT state, made FROM target`
