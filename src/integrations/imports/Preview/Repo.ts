/** SQL of the preview: one statement, so that all reads see one snapshot. */
import { Struct } from "effect"
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../../../api/schema/Ids.ts"
import type { ImportPreview } from "../../../api/integrations/Preview.ts"
import { columns } from "../../../crm/ClientColumns.ts"
import { listOf } from "../../../platform/database/Columns.ts"
import { importFields } from "../ImportFields.ts"

interface Found {
  readonly status: "active" | "disabled"
  readonly hasProfile: boolean
  /** Null if the batch is not evaluated or the installation has no profile. */
  readonly evaluation: Pick<
    ImportPreview,
    "counts" | "duplicateCount" | "unsupportedFields" | "profileVersion" | "fingerprint"
  > | null
  /** Number of contacts that match a client, and number of matching contacts that differ from their client. */
  readonly matched: number
  readonly differing: number
}

/** SQL condition: a contact differs from its client in a mapped field. Arrays are compared as sets. */
const differs = listOf(Struct.pick(columns, Struct.keys(importFields.contact)))
  .map(({ column, member, type }) =>
    type === "text[]"
      ? `contact.mapped ? '${member}' AND NOT (
    client.${column} <@ ARRAY(SELECT jsonb_array_elements_text(contact.mapped->'${member}'))
    AND client.${column} @> ARRAY(SELECT jsonb_array_elements_text(contact.mapped->'${member}'))
  )`
      : `contact.mapped ? '${member}' AND contact.mapped->>'${member}' IS DISTINCT FROM client.${column}`
  )
  .join(" OR ")

/** The conditions that match a contact with a client, in order of priority. An index serves each condition. */
const matchConditions = [
  "client.external_id = contact.external_id",
  // A mail address is ASCII. COLLATE makes `lower` independent of the database's locale.
  `lower(client.email COLLATE "C") = contact.email`,
  "client.phone = contact.phone"
]

/**
 * Returns the evaluation and the comparison; no row if there is no such installation. LIMIT makes PostgreSQL look up each
 * contact in an index, in any plan. A join would read all clients of all projects if the plan was made for an empty table or a
 * large batch.
 */
export const preview = (sql: SqlClient.SqlClient, projectId: ProjectId, id: InstallationId) =>
  sql<Found>`
    WITH match AS MATERIALIZED (
      SELECT ${sql.literal(differs)} AS differs
      FROM staged_contacts AS contact CROSS JOIN LATERAL (
        SELECT * FROM (${sql.join(
          " UNION ALL ",
          false
        )(
          matchConditions.map(
            (condition, order) => sql`
            (SELECT ${sql.literal(String(order))} AS condition, client.* FROM clients AS client
            WHERE client.project_id = contact.project_id AND ${sql.literal(condition)}
              AND client.merged_into_client_id IS NULL
            ORDER BY client.created_at, client.id LIMIT 1)`
          )
        )}) AS found
        ORDER BY condition LIMIT 1
      ) AS client
      WHERE contact.project_id = ${projectId} AND contact.installation_id = ${id}
    )
    SELECT installation.status, installation.profile_version IS NOT NULL AS "hasProfile",
      CASE WHEN batch.fingerprint IS NOT NULL THEN json_build_object(
        'counts', batch.counts, 'duplicateCount', batch.duplicate_count, 'unsupportedFields', batch.unsupported_fields,
        'profileVersion', batch.profile_version, 'fingerprint', batch.fingerprint
      ) END AS evaluation,
      (SELECT count(*)::int FROM match) AS matched, (SELECT count(*)::int FROM match WHERE differs) AS differing
    FROM installations AS installation LEFT JOIN staged_batches AS batch
      ON batch.project_id = installation.project_id AND batch.installation_id = installation.id
    WHERE installation.project_id = ${projectId} AND installation.id = ${id}`
