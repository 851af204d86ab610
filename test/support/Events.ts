/** Subscriptions of webhooks, and the events in the outbox for them. */
import { Effect, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { events, type EventType, eventTypes } from "../../src/api/integrations/Events.ts"

/** Subscribes an installation of the project to events, by default to all. */
export const subscribe = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  projectId: string,
  installationId: string,
  types: ReadonlyArray<EventType> = eventTypes,
  enabled = true
) {
  yield* sql`
    INSERT INTO installations (project_id, id, name, status) VALUES (${projectId}, ${installationId}, 'Shop', 'active')`
  yield* sql`
    INSERT INTO webhooks (project_id, installation_id, endpoint_url, event_types, enabled, version)
    VALUES (${projectId}, ${installationId}, 'https://example.com/hook', ${[...types]}, ${enabled}, 1)`
}, Effect.orDie)

/** Enables or disables a webhook. */
export const enable = (sql: SqlClient.SqlClient, projectId: string, installationId: string, enabled: boolean) =>
  Effect.orDie(sql`
    UPDATE webhooks SET enabled = ${enabled} WHERE project_id = ${projectId} AND installation_id = ${installationId}`)

/** Adds copies of an event of the project, which occur now. */
export const copyEvent = (sql: SqlClient.SqlClient, projectId: string, count: number) =>
  Effect.orDie(sql`
    INSERT INTO events (project_id, id, type, data, traceparent, occurred_at)
    SELECT project_id, new_id('evt', now()), type, data, traceparent, now() FROM (
      SELECT * FROM events WHERE project_id = ${projectId} LIMIT 1
    ) event, generate_series(1, ${count}::int)`)

interface Row {
  readonly id: string
  readonly type: EventType
  readonly data: unknown
  readonly traceparent: string
  readonly occurredAt: Date
  /** The installations that receive it, in order. */
  readonly installations: ReadonlyArray<string>
}

const strict = { onExcessProperty: "error", errors: "all" } as const

/**
 * Returns the project's events in order, each with its deliveries. Decodes the `data` of each by the schema of its type.
 * Changes of one millisecond are ordered by the versions of their record.
 */
export const eventsOf = (sql: SqlClient.SqlClient, projectId: string) =>
  sql<Row>`
    SELECT id, type, data, traceparent, occurred_at AS "occurredAt", ARRAY(
      SELECT installation_id FROM deliveries
      WHERE project_id = ${projectId} AND event_id = events.id AND status = 'pending' AND available_at <= now()
      ORDER BY installation_id
    ) AS installations
    FROM events WHERE project_id = ${projectId} 
    ORDER BY occurred_at, coalesce(data #>> '{deal,version}', data #>> '{client,version}')::int, type DESC, id`.pipe(
    Effect.tap(
      Effect.forEach(({ data, type }) => Schema.decodeUnknownEffect(Schema.Union([events[type].data]), strict)(data))
    ),
    Effect.orDie
  )
