/**
 * Erases a client (contract §7). The statement removes what commands and answers show of it, so it is committed with the key of the
 * command. Texts of messages, which no answer shows, may be many more: the statement only notes them (`erasures`), and
 * `campaigns/Retention.ts` removes them in batches. The records that refer to a client and its stored events have no such bound. If
 * they are too many for the timeout of a statement, nothing is changed, and the answer is 503.
 */
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { ClientId } from "../../api/schema/Ids.ts"
import { ClientNotFound, type PreconditionFailed } from "../../api/Problems.ts"
import { matches, type Mutation, plain, preconditionFailed } from "../../commands/Command.ts"
import { append, appendedInstallations, type EventContext, eventType } from "../../outbox/Outbox.ts"
import * as Clients from "../ClientColumns.ts"
import * as Deals from "../DealColumns.ts"
import { addActiveClients, lockCapacity } from "../ClientColumns.ts"

/**
 * Locks the client, then what refers to it: each kind by id, as every statement does. A command that sets a reference to the client
 * locks the client for that; so it comes before this statement or fails. If it was committed after the snapshot of this statement, the
 * removal of the client fails, and the statement runs again (`Database.ts`). A change of the client itself raises its version:
 * the statement runs again, too, so that it sees the event of that change.
 */
export const erase = (
  sql: Sql,
  { at, projectId, traceparent }: EventContext,
  id: ClientId
): Mutation<ClientNotFound | PreconditionFailed> => ({
  at,
  decided: sql`
    target AS MATERIALIZED (
      SELECT client.*, contact_capacity IS NOT NULL AND status = 'active' AS counts,
        (SELECT version FROM clients WHERE project_id = client.project_id AND id = client.id) AS seen_version
      FROM command, LATERAL (
        SELECT project_id, id, external_id, status, version AS old_version FROM clients
        WHERE project_id = command.project_id AND id = ${id}
        FOR UPDATE
      ) AS client
    ),
    deal AS MATERIALIZED (${referring(sql, "deals")}),
    ticket AS MATERIALIZED (${referring(sql, "tickets")}),
    task AS MATERIALIZED (${referring(sql, "tasks")}),
    conversation AS MATERIALIZED (${referring(sql, "conversations")}),
    merged AS MATERIALIZED (${referring(sql, "clients", "merged_into_client_id")}),
    segment AS MATERIALIZED (
      SELECT found.* FROM target, LATERAL (
        SELECT segments.project_id, segments.id FROM (
          SELECT project_id, segment_id FROM segment_clients
          WHERE project_id = target.project_id AND client_id = target.id OFFSET 0
        ) AS place JOIN segments ON segments.project_id = place.project_id AND segments.id = segment_id
        ORDER BY segments.id FOR NO KEY UPDATE OF segments
      ) AS found
    ),
    ${lockCapacity(sql, sql`SELECT project_id FROM target WHERE counts AND ${sql.literal(counted)} >= 0`)},
    decided AS MATERIALIZED (
      SELECT command.*,
        CASE
          WHEN target.id IS NULL THEN 'client_not_found'
          WHEN NOT ${sql.literal(matches("old_version"))} THEN 'precondition_failed'
        END AS failure, NULL::text[] AS faults,
        ${id}::text AS resource_id, true AS changed, old_version AS version
      FROM command LEFT JOIN target ON true
      WHERE (target.id IS NULL OR old_version = seen_version)
        AND ${sql.literal(counted)} + (SELECT count(*) FROM capacity) >= 0
    )`,
  effect: sql`
    ${addActiveClients(sql, sql`SELECT applied.project_id, -1 AS change FROM applied, target WHERE counts`)},
    updated_deal AS (
      UPDATE deals SET client_id = NULL, version = deals.version + 1, updated_at = greatest(deals.updated_at, applied.at)
      FROM applied, deal WHERE deals.project_id = deal.project_id AND deals.id = deal.id
      RETURNING deals.*, deal.before
    ),
    updated_ticket AS (
      UPDATE tickets SET client_id = NULL, version = tickets.version + 1
      FROM applied, ticket WHERE tickets.project_id = ticket.project_id AND tickets.id = ticket.id
    ),
    updated_task AS (
      UPDATE tasks SET client_id = NULL, version = tasks.version + 1
      FROM applied, task WHERE tasks.project_id = task.project_id AND tasks.id = task.id
    ),
    -- An empty address stands for an erased one: nothing is sent to it.
    updated_conversation AS (
      UPDATE conversations SET client_id = NULL, address = ''
      FROM applied, conversation
      WHERE conversations.project_id = conversation.project_id AND conversations.id = conversation.id
    ),
    -- Clients that were merged into this one were left out of campaigns. They stay left out.
    updated_client AS (
      UPDATE clients SET merged_into_client_id = NULL, suppressed = true, version = clients.version + 1,
        updated_at = greatest(clients.updated_at, applied.at)
      FROM applied, merged WHERE clients.project_id = merged.project_id AND clients.id = merged.id
      RETURNING clients.*, merged.before
    ),
    left_segment AS (
      DELETE FROM segment_clients USING applied, segment
      WHERE segment_clients.project_id = ${projectId} AND segment_id = segment.id AND client_id = ${id}
    ),
    updated_segment AS (
      UPDATE segments SET contact_count = contact_count - 1, updated_at = greatest(segments.updated_at, applied.at)
      FROM applied, segment WHERE segments.project_id = segment.project_id AND segments.id = segment.id
    ),
    removed_addresses AS (
      DELETE FROM client_addresses USING applied
      WHERE client_addresses.project_id = applied.project_id AND client_id = ${id}
    ),
    removed AS (DELETE FROM clients USING applied WHERE clients.project_id = applied.project_id AND clients.id = ${id}),
    erased_event AS (
      UPDATE events SET data = json_build_object('client', json_build_object(
        'id', data -> 'client' -> 'id', 'externalId', data -> 'client' -> 'externalId'))
      FROM applied WHERE events.project_id = ${projectId} AND ${Clients.eventsOf(sql, sql`${id}`)}
    ),
    noted AS (
      INSERT INTO erasures (project_id, id, client_id, conversation_ids)
      SELECT project_id, new_id('era', at), ${id}, ARRAY(SELECT id FROM conversation) FROM applied
    ),
    ${append(
      sql,
      sql`
        SELECT project_id, ${eventType(sql, "crm.client.erased.v1")},
          json_build_object('client', json_build_object('id', id, 'externalId', external_id)),
          ${at}::timestamptz, ${traceparent}::text
        FROM target WHERE EXISTS (SELECT FROM applied)
        UNION ALL
        SELECT project_id, ${eventType(sql, "crm.deal.updated.v1")}, ${sql.literal(dealData)}, updated_at, ${traceparent}
        FROM updated_deal
        UNION ALL
        SELECT project_id, ${eventType(sql, "crm.client.updated.v1")}, ${sql.literal(clientData)}, updated_at, ${traceparent}
        FROM updated_client`
    )}`,
  returning: appendedInstallations(sql, sql`${projectId}`),
  problems: { ...preconditionFailed, ...plain(ClientNotFound) }
})

/**
 * A query of the records of a table that refer to the client, locked in the order of their ids. `before` is the whole row. The order
 * begins with the client, which is the same in all rows. Otherwise PostgreSQL could read the order from the primary key, and with it
 * all records of the project.
 */
const referring = (
  sql: Sql,
  table: "deals" | "tickets" | "tasks" | "conversations" | "clients",
  column = "client_id"
) =>
  sql`
    SELECT found.* FROM target, LATERAL (
      SELECT record.project_id, record.id, record AS before FROM ${sql(table)} AS record
      WHERE record.project_id = target.project_id AND record.${sql(column)} = target.id
      ORDER BY record.${sql(column)}, record.id FOR NO KEY UPDATE
    ) AS found`

/** The number of locked records. To count them is to lock them: a statement that needs the number does so after all of these locks. */
const counted = `(${["deal", "ticket", "task", "conversation", "merged", "segment"]
  .map((records) => `(SELECT count(*) FROM ${records})`)
  .join(" + ")})`

const dealData = `json_build_object(${Deals.eventDeal("updated_deal")}, ${Deals.eventPrevious("(updated_deal.before)", "updated_deal")})`
const clientData = `json_build_object(${Clients.eventClient("updated_client")}, ${Clients.eventPrevious("(updated_client.before)", "updated_client")})`
