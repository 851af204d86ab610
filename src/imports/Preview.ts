/** Previews what the import of the staged records changes (contract §11). */
import { Context, Effect, Layer, Struct } from "effect"
import { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../api/schema/Ids.ts"
import type { ImportPreview } from "../api/integrations/Installations.ts"
import { InstallationNotFound, InstallationNotReady, type ServiceUnavailable } from "../api/Problems.ts"
import { columns } from "../crm/ClientColumns.ts"
import { listOf } from "../sql/Columns.ts"
import { type Call, makeBatches } from "../sql/Batches.ts"
import { capacityOf } from "../sql/Connections.ts"
import { retryContended } from "../sql/Database.ts"
import { FairQueue } from "../commands/Grouped.ts"
import { hashOf } from "../platform/Ids.ts"
import { importFields } from "./Evaluation.ts"

export class Preview extends Context.Service<
  Preview,
  {
    /**
     * Fails with `InstallationNotReady` if the installation is disabled, has no profile, or has no staged records or more contacts
     * than `maxContacts`.
     */
    readonly preview: (
      projectId: ProjectId,
      id: InstallationId
    ) => Effect.Effect<ImportPreview, InstallationNotFound | InstallationNotReady | ServiceUnavailable>
  }
>()("developer-api-service/imports/Preview") {
  static readonly layer = Layer.effect(
    Preview,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const found = readsOf(sql, yield* capacityOf("reports"))
      return {
        preview: Effect.fnUntraced(function* (projectId, id) {
          const read = yield* found(projectId, id)
          if (read === undefined) return yield* new InstallationNotFound()
          const { differing, evaluation, hasProfile, matched, status } = read
          if (status === "disabled") return yield* notReady("The installation is disabled.")
          if (!hasProfile) return yield* notReady("The installation has no import profile.")
          if (evaluation === null) return yield* notReady(InstallationNotReady.detail)
          const { counts, duplicateCount, fingerprint, profileVersion, unsupportedFields } = evaluation
          if (counts.contact > maxContacts) return yield* notReady(tooMany(counts.contact))
          const records = Object.values(counts).reduce((sum, count) => sum + count, 0)
          const skip = duplicateCount + matched - differing
          const estimatedChanges = { create: records - differing - skip, update: differing, skip }
          return { counts, duplicateCount, unsupportedFields, estimatedChanges, profileVersion, fingerprint }
        })
      }
    })
  )
}

interface Asked {
  readonly projectId: ProjectId
  readonly id: InstallationId
  readonly names: ReadonlyArray<number>
}

/**
 * Makes the function that reads what a preview needs. A preview of many records takes long, so each project has one statement at a
 * time, and projects are served in turn.
 */
const readsOf = (sql: SqlClient.SqlClient, connections: number) => {
  const ask = makeBatches({
    line: new FairQueue<Call<Asked, Found | undefined, ServiceUnavailable>>(),
    maxBatch: 1,
    maxInFlight: connections,
    isEager: false,
    run: (asked: ReadonlyArray<Asked>) =>
      Effect.forEach(asked, ({ id, projectId }) =>
        Effect.map(retryContended(find(sql, projectId, id)), ([found]) => found)
      ),
    settle: (_, found) => found
  })
  return (projectId: ProjectId, id: InstallationId) => ask({ projectId, id, names: [hashOf("preview", projectId)] })
}

/** Maximum number of contacts of a preview. One statement compares them all with clients, within its timeout. */
const maxContacts = 500_000

const tooMany = (contacts: number) =>
  `The installation has ${contacts} staged contacts. At most ${maxContacts} are previewed: stage them in parts.`

const notReady = (detail: string) => new InstallationNotReady({ detail })

interface Found {
  readonly status: "active" | "disabled"
  readonly hasProfile: boolean
  /** The stored evaluation of the staged records; null if there is none. */
  readonly evaluation: Pick<
    ImportPreview,
    "counts" | "duplicateCount" | "unsupportedFields" | "profileVersion" | "fingerprint"
  > | null
  /** Number of contacts that match a client, and number of these that differ from the client. */
  readonly matched: number
  readonly differing: number
}

/** Whether a valid mapped value of a contact differs from the value of its client. Arrays are compared as sets. */
const differs = listOf(Struct.pick(columns, Struct.keys(importFields.contact)))
  .map(({ column, member, type }) =>
    type === "text[]"
      ? `NOT (contact.mapped->'${member}' @> to_jsonb(client.${column}) AND contact.mapped->'${member}' <@ to_jsonb(client.${column}))`
      : `contact.mapped ? '${member}' AND contact.mapped->>'${member}' IS DISTINCT FROM client.${column}`
  )
  .join(" OR ")

/** The conditions that match a contact with its client. The first condition that finds a client applies. Each has an index. */
const matchConditions = [
  "client.external_id = contact.external_id",
  // A mail address is ASCII. COLLATE makes `lower` independent of the database's locale.
  `lower(client.email COLLATE "C") = contact.email`,
  "client.phone = contact.phone"
]

/**
 * Returns the stored evaluation and the numbers of contacts that match a client, and that differ from it. One statement reads
 * both from one snapshot. Returns no row if the installation does not exist. A condition is looked for only if those before it
 * find no client. With LIMIT, the look-up of a contact's client reads an index in any plan. A join would read all clients of all
 * projects if the plan was made for an empty table or a large batch.
 */
const find = (sql: SqlClient.SqlClient, projectId: ProjectId, id: InstallationId) =>
  sql<Found>`
    WITH match AS MATERIALIZED (
      SELECT ${sql.literal(differs)} AS differs
      FROM staged_contacts AS contact CROSS JOIN LATERAL (
        SELECT * FROM clients WHERE ctid = coalesce(${sql.csv(
          matchConditions.map(
            (condition) => sql`(
            SELECT ctid FROM clients AS client
            WHERE client.project_id = contact.project_id AND ${sql.literal(condition)}
              AND client.merged_into_client_id IS NULL
            ORDER BY client.created_at, client.id LIMIT 1)`
          )
        )}) LIMIT 1
      ) AS client
      WHERE contact.project_id = ${projectId} AND contact.installation_id = ${id} AND (
        SELECT (counts->>'contact')::int <= ${maxContacts}::int FROM staged_batches
        WHERE project_id = ${projectId} AND installation_id = ${id}
      )
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
