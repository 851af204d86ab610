/**
 * The transactional outbox (contract §10). The statement of a change also appends the events of the change and the deliveries of
 * these events. So either all of them are committed or none.
 */
import { Clock, Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { InstallationId, ProjectId } from "../api/schema/Ids.ts"
import type { EventType } from "../api/integrations/Events.ts"
import { currentOrNewTraceparent } from "../telemetry/TraceContext.ts"

/** What the events of a change have in common. */
export interface EventContext {
  readonly projectId: ProjectId
  readonly at: Date
  /** The position of the change in a trace (W3C Trace Context). */
  readonly traceparent: string
}

export const eventContext = Effect.fnUntraced(function* (projectId: ProjectId): Effect.fn.Return<EventContext> {
  return { projectId, at: new Date(yield* Clock.currentTimeMillis), traceparent: yield* currentOrNewTraceparent }
})

export const eventType = (sql: SqlClient.SqlClient, type: EventType): Statement.Fragment => sql.literal(`'${type}'`)

/** The installations for which a statement has appended deliveries. */
export type Appended = ReadonlyArray<InstallationId>

/**
 * Returns an SQL expression (`text[]`): the installations of a project for which the statement has appended deliveries by
 * `append`. `distinct` is empty for a statement that appends one event, which has one delivery for each installation.
 */
export const appendedInstallations = (
  sql: SqlClient.SqlClient,
  projectId: Statement.Fragment,
  distinct: Statement.Fragment = sql.literal("DISTINCT")
): Statement.Fragment =>
  sql`ARRAY(SELECT ${distinct} installation_id FROM delivery WHERE delivery.project_id = ${projectId})`

/**
 * Returns common table expressions that append events and deliveries. `happened` is a query of the events: project, `type`,
 * `data` (json), time and traceparent. An event gets a delivery for every enabled webhook of its project that subscribes to its
 * type. An event without a subscriber is not stored; one of a disabled webhook is, for a replay. A delivery is due at once. The due time is from the database's clock, by
 * which workers look for due deliveries. A webhook that is disabled concurrently may still get a delivery, because its row is
 * not locked.
 */
export const append = (sql: SqlClient.SqlClient, happened: Statement.Fragment): Statement.Fragment => sql`
  event AS (
    INSERT INTO events (project_id, id, type, data, occurred_at, traceparent)
    SELECT happened.project_id, new_id('evt', happened.at), happened.type, happened.data, happened.at,
           happened.traceparent
    FROM (${happened}) AS happened (project_id, type, data, at, traceparent)
    WHERE EXISTS (
      SELECT FROM webhooks
      WHERE webhooks.project_id = happened.project_id
        AND happened.type = ANY(webhooks.event_types)
    )
    RETURNING project_id, id, type, occurred_at
  ),
  delivery AS (
    INSERT INTO deliveries (project_id, id, installation_id, event_id, event_type, available_at, created_at)
    SELECT event.project_id, new_id('dlv', event.occurred_at), webhooks.installation_id, event.id, event.type,
           date_trunc('milliseconds', now()), event.occurred_at
    FROM event JOIN webhooks
      ON webhooks.project_id = event.project_id AND webhooks.enabled AND event.type = ANY(webhooks.event_types)
    RETURNING project_id, installation_id
  )`
