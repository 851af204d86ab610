/** The deliveries of an installation in the order of their ids, which is the order of creation. */
import type { SqlClient, Statement } from "effect/sql"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { type DeliveryStatus, deliveryStatuses } from "../../api/integrations/Deliveries.ts"
import { type EventType, eventTypes } from "../../api/integrations/Events.ts"

export const finishedStates = ["delivered", "dead"] as const satisfies ReadonlyArray<DeliveryStatus>

/** The state of a delivery for callers, as in the index `deliveries_by_state`. */
const state = `(CASE
  WHEN finished_at IS NULL THEN 'pending'
  WHEN coalesce(attempt_log -> -1 ->> 'statusCode', '') LIKE '2__' THEN 'delivered'
  ELSE 'dead'
END)`

export interface Selected {
  readonly projectId: ProjectId
  readonly installationId: string
  /** All states if absent. */
  readonly states?: ReadonlyArray<DeliveryStatus> | undefined
  /** All types if absent. */
  readonly types?: ReadonlyArray<EventType> | undefined
  /** Selects only ids greater than this: a text, or a query that returns one. If absent, there is no lower limit. */
  readonly above?: string | Statement.Fragment | undefined
  /** Selects only ids less than this: a text, or a query that returns one. If absent, there is no upper limit. */
  readonly below?: string | Statement.Fragment | undefined
  readonly order: "ASC" | "DESC"
  readonly limit: number
}

/**
 * A query of all columns of the selected deliveries. With states or types it merges one part of the index `deliveries_by_state`
 * for each state and type, otherwise it reads `deliveries_by_installation`. Each part is in the order of the ids, so PostgreSQL
 * reads hardly more deliveries than it returns. OFFSET 0 keeps the values in one place: otherwise PostgreSQL would copy them into
 * each part.
 */
export const inOrder = (
  sql: SqlClient.SqlClient,
  { above, below, installationId, limit, order, projectId, states, types }: Selected
): Statement.Fragment => {
  const range = `${above === undefined ? "" : "AND id > above"} ${below === undefined ? "" : "AND id < below"}`
  const ordered = `ORDER BY id ${order} LIMIT ${limit}`
  const isFiltered = states !== undefined || types !== undefined
  const conditions = (states ?? deliveryStatuses).flatMap((status) =>
    (types ?? eventTypes).map((type) => `AND ${state} = '${status}' AND event_type = '${type}'`)
  )
  const parts = (isFiltered ? conditions : [""]).map(
    (condition) => `
    UNION ALL (SELECT * FROM deliveries
     WHERE project_id = given.project AND installation_id = given.installation ${condition} ${range} ${ordered})`
  )
  return sql`
    SELECT parts.* FROM (
      SELECT ${projectId}::text AS project, ${installationId}::text AS installation, ${above ?? null}::text AS above,
        ${below ?? null}::text AS below OFFSET 0
    ) given, LATERAL (SELECT * FROM deliveries WHERE false ${sql.literal(`${parts.join("")} ${ordered}`)}) parts`
}
