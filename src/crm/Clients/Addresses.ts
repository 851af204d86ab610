/** The addresses of clients on channels, which project files write as well, and campaigns read. */
import { DateTime, Effect, Predicate } from "effect"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { ClientAddresses } from "../../api/crm/Addresses.ts"
import type { ClientId, ProjectId } from "../../api/schema/Ids.ts"
import { ChannelNotFound, ClientArchived, ClientNotFound, type PreconditionFailed } from "../../api/Problems.ts"
import { lookupBy, plannedOnce } from "../../sql/Lookups.ts"
import type { Kind } from "../../commands/Kind.ts"
import { makeGrouped } from "../../commands/Grouped.ts"
import { type Command, plain, preconditionFailed } from "../../commands/Command.ts"
import type { MutationClient } from "../../commands/Mutations.ts"

interface Replacement extends ClientAddresses {
  readonly id: ClientId
}

export const makeAddresses = (sql: Sql, mutations: MutationClient) => {
  const find = lookupBy<Replacement & { readonly version: number }>(
    sql,
    (key) => sql`
      SELECT client.* FROM ${key} LEFT JOIN LATERAL (
        SELECT id, version, ${sql.literal(storedOf("key"))} AS addresses
        FROM clients WHERE project_id = key.project_id AND id = key.id
      ) AS client ON true
      WHERE ${sql.literal(plannedOnce)}
      ORDER BY ordinal`
  )
  const replacing = makeGrouped(mutations, replace(sql))
  return {
    get: (projectId: ProjectId, id: ClientId) =>
      Effect.filterOrFail(find({ projectId, id }), Predicate.isNotUndefined, () => new ClientNotFound()),
    /** Replaces all addresses of a client that is not archived. */
    put: (command: Command, id: ClientId, { addresses }: ClientAddresses) =>
      Effect.flatMap(DateTime.nowAsDate, (now) => replacing(command, now, { id, addresses }))
  }
}

/** Returns SQL for the addresses of the client that `row` names, in the form of the API. */
const storedOf = (row: string) => `(
  SELECT coalesce(jsonb_agg(jsonb_build_object('channelId', channel_id, 'address', address) ORDER BY position), '[]')
  FROM client_addresses WHERE project_id = ${row}.project_id AND client_id = ${row}.id
)`

const isChannelMissing = `(
  SELECT true FROM jsonb_to_recordset(addresses) AS listed ("channelId" text) LEFT JOIN LATERAL (
    SELECT id FROM channels WHERE project_id = command.project_id AND id = listed."channelId" OFFSET 0
  ) AS channel ON true
  WHERE channel.id IS NULL LIMIT 1
)`

/**
 * A statement that has waited for the client sees its newest version, but the addresses of its own snapshot. So the command gets no
 * row, and runs again, if its snapshot has another version of the client: every change of the addresses raises it, or is that of a
 * project file. Positions are overwritten, as a statement cannot rely on the order of its deletes and inserts.
 */
const replace = (
  sql: Sql
): Kind<Replacement, ClientNotFound | ChannelNotFound | ClientArchived | PreconditionFailed> => ({
  args: { id: "text", addresses: "jsonb" },
  takes: ({ id }) => [id],
  decided: ({ absent, holds, inOrder, locked }) => sql`
    target AS MATERIALIZED (
      SELECT command.ord, client.*, addresses <> ${sql.literal(storedOf("command"))} AS differs,
        (SELECT version FROM clients WHERE project_id = command.project_id AND id = command.id) AS seen_version
      FROM ${inOrder}, LATERAL (
        SELECT status, version AS old_version FROM clients
        WHERE project_id = command.project_id AND id = command.id
        FOR NO KEY UPDATE ${locked}
      ) AS client
    ),
    decided AS MATERIALIZED (
      SELECT command.*,
        CASE
          WHEN target.ord IS NULL THEN ${absent(sql`SELECT FROM clients WHERE project_id = command.project_id AND id = command.id`, "client_not_found")}
          WHEN NOT ${holds} THEN 'precondition_failed'
          WHEN status = 'archived' THEN 'client_archived'
          WHEN ${sql.literal(isChannelMissing)} THEN 'channel_not_found'
        END AS failure, NULL::text[] AS faults,
        command.id AS resource_id, differs AS changed, old_version + (differs AND ${holds} IS NOT FALSE)::int AS version
      FROM command LEFT JOIN target ON target.ord = command.ord
      WHERE target.ord IS NULL OR old_version = seen_version
    )`,
  effect: () => sql`
    removed AS (
      DELETE FROM client_addresses USING applied
      WHERE client_addresses.project_id = applied.project_id AND client_id = applied.id AND applied.changed
        AND client_addresses.position >= jsonb_array_length(applied.addresses)
    ),
    written AS (
      INSERT INTO client_addresses (project_id, client_id, position, channel_id, address)
      SELECT project_id, id, place - 1, item->>'channelId', item->>'address'
      FROM applied, jsonb_array_elements(addresses) WITH ORDINALITY AS listed (item, place)
      WHERE changed
      ON CONFLICT (project_id, client_id, position)
        DO UPDATE SET channel_id = excluded.channel_id, address = excluded.address
    ),
    updated AS (
      UPDATE clients SET version = clients.version + 1, updated_at = greatest(clients.updated_at, applied.at)
      FROM applied
      WHERE clients.project_id = applied.project_id AND clients.id = applied.id AND applied.changed
    )`,
  problems: { ...preconditionFailed, ...plain(ClientNotFound, ChannelNotFound, ClientArchived) }
})
