/** The SQL of the preview: one statement, so all of it is seen at one moment. */
import { Struct } from "effect"
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../../api/Ids.ts"
import type { ImportPreview } from "../../api/integrations/Preview.ts"
import { columns } from "../../crm/Clients/Record.ts"
import { listOf } from "../../platform/Columns.ts"
import { importFields } from "./Fields.ts"

/** What the records and the profile say, and what the clients add to that. */
interface Found {
  readonly status: "active" | "disabled"
  readonly hasProfile: boolean
  /** What was judged of the batch; null while there is none, or no profile. */
  readonly judged: Pick<
    ImportPreview,
    "counts" | "duplicateCount" | "unsupportedFields" | "profileVersion" | "fingerprint"
  > | null
  /** Contacts that have a client, and those of them that differ from it. */
  readonly matched: number
  readonly differing: number
}

/** Whether a contact has another value than its client, by the fields that contacts can be mapped to. Arrays are sets. */
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

/** The ways to find a contact's client; the first that finds one counts. */
const ways = [
  "client.external_id = contact.external_id",
  // By the bytes of ASCII, which is all that a mail address has, whatever the database's language makes of an I.
  `lower(client.email COLLATE "C") = contact.email`,
  "client.phone = contact.phone"
]

export const preview = (sql: SqlClient.SqlClient, projectId: ProjectId, id: InstallationId) =>
  sql<Found>`
    WITH match AS MATERIALIZED (
      SELECT DISTINCT ON (position) differs
      FROM (${sql.join(
        " UNION ALL ",
        false
      )(
        ways.map(
          (found, way) => sql`
            SELECT contact.position, ${sql.literal(String(way))} AS way, client.created_at, client.id,
              ${sql.literal(differs)} AS differs
            FROM staged_contacts AS contact JOIN clients AS client ON ${sql.literal(found)}
            WHERE contact.project_id = ${projectId} AND contact.installation_id = ${id}
              AND client.project_id = ${projectId} AND client.merged_into_client_id IS NULL`
        )
      )}) AS pair
      ORDER BY position, way, created_at, id
    )
    SELECT installation.status, installation.profile_version IS NOT NULL AS "hasProfile",
      CASE WHEN batch.fingerprint IS NOT NULL THEN json_build_object(
        'counts', batch.counts, 'duplicateCount', batch.duplicate_count, 'unsupportedFields', batch.unsupported_fields,
        'profileVersion', batch.profile_version, 'fingerprint', batch.fingerprint
      ) END AS judged,
      (SELECT count(*)::int FROM match) AS matched, (SELECT count(*)::int FROM match WHERE differs) AS differing
    FROM installations AS installation LEFT JOIN staged_batches AS batch
      ON batch.project_id = installation.project_id AND batch.installation_id = installation.id
    WHERE installation.project_id = ${projectId} AND installation.id = ${id}`
