/** What a replay sends again: deliveries of one installation, by their creation time, state and event type. */
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../../api/Ids.ts"
import type { EventType } from "../../api/integrations/Events.ts"
import { firstIdAt } from "../../platform/NewId.ts"
import type { State } from "../Deliveries/States.ts"

/** Which deliveries are sent again, as operators name them. Open ones are sent anyway. */
export const filters = {
  dead: ["dead"],
  delivered: ["delivered"],
  all: ["dead", "delivered"]
} as const satisfies Readonly<Record<string, ReadonlyArray<State>>>
export type Filter = keyof typeof filters
export const filterNames: ReadonlyArray<Filter> = ["dead", "delivered", "all"]

export interface Selection {
  readonly projectId: ProjectId
  readonly installationId: InstallationId
  /** Deliveries from this time on, */
  readonly since: Date
  /** and before this one. */
  readonly until: Date
  readonly eventTypes: ReadonlyArray<EventType>
  readonly filter: Filter
}

/** Deliveries that one statement looks at. Others wait behind it on its connection. */
const looksAt = 5_000

/**
 * Counts the deliveries of a selection among the next ones after the id `position`. Returns the last id that was looked at,
 * or null after the end. Replays are not repeated: what they repeat is.
 */
export const count = (sql: SqlClient.SqlClient, selection: Selection, position: string) => sql<{
  readonly last: string | null
  readonly matched: number
}>`
  WITH looked AS MATERIALIZED (
    SELECT id, installation_id, event_id, status, replay_of FROM deliveries
    WHERE project_id = ${selection.projectId} AND id > ${position} AND id < ${firstIdAt("dlv", selection.until.getTime())}
    ORDER BY id LIMIT ${looksAt}::int
  )
  SELECT (SELECT max(id) FROM looked) AS last, count(*)::int AS matched FROM looked
  WHERE installation_id = ${selection.installationId} AND replay_of IS NULL
    AND status = ANY(${[...filters[selection.filter]]}::text[]) AND EXISTS (
      SELECT FROM events
      WHERE project_id = ${selection.projectId} AND id = event_id
        AND type = ANY(${[...selection.eventTypes]}::text[])
    )`
