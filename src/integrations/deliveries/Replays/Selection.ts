/** Selects the deliveries of an installation that a replay repeats, by creation time, state and event type. */
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../../../api/schema/Ids.ts"
import type { EventType } from "../../../api/integrations/Events.ts"
import { firstIdAt } from "../../../platform/NewId.ts"
import { inOrder } from "../DeliveryList.ts"
import type { State } from "../States.ts"

/**
 * The states of the deliveries that a replay repeats, by the names that operators use. No name includes pending deliveries,
 * because they are sent anyway.
 */
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
  /** Deliveries created at this time or later. */
  readonly since: Date
  /** Deliveries created before this time. */
  readonly until: Date
  readonly eventTypes: ReadonlyArray<EventType>
  readonly filter: Filter
}

/** Maximum number of deliveries that one statement counts: other statements wait for the connection meanwhile. */
const scanLimit = 5_000

/**
 * Reads the next deliveries of the selection after the id `position`, and counts them. Deliveries that a replay created are not
 * counted. Returns the id that was read last, or null after the end.
 */
export const count = (sql: SqlClient.SqlClient, selection: Selection, position: string) => sql<{
  readonly last: string | null
  readonly matched: number
}>`
  WITH scanned AS MATERIALIZED (
    SELECT id, replay_of FROM (${inOrder(sql, {
      projectId: selection.projectId,
      installationId: selection.installationId,
      states: filters[selection.filter],
      types: selection.eventTypes,
      above: position,
      below: firstIdAt("dlv", selection.until.getTime()),
      order: "ASC",
      limit: scanLimit
    })}) selected
  )
  SELECT (SELECT max(id) FROM scanned) AS last, count(*)::int AS matched FROM scanned WHERE replay_of IS NULL`
