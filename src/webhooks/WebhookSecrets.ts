/**
 * The sealed values of webhooks: the secrets that sign deliveries, and the headers that a caller adds, whose values may be secrets.
 * After SECRET_KEY has changed, they are stored sealed with the new key.
 */
import { Effect, Redacted, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../api/schema/Ids.ts"
import { livesHere } from "../platform/MoveState.ts"
import { sealedColumn, type SealedTable, type SealedValue } from "../secrets/SealedValues.ts"
import { WebhookHeaders } from "../api/integrations/Webhooks.ts"
import { canonicalJson } from "../commands/Command.ts"
import type { SecretBox } from "../secrets/SecretBox.ts"

/**
 * Maximum number of secrets that sign a delivery (contract §10): the current secret, and replaced secrets, which also sign for a
 * while.
 */
export const signingSecretsMax = 3

/** The owner of a webhook's signing secrets. A sealed secret can be opened only for its owner. */
export const secretOwner = (projectId: ProjectId, id: InstallationId) => ["webhook", projectId, id]

/** The current secret, and the headers. Returns no row if the installation has no webhook. */
export const currentSecret = (sql: SqlClient.SqlClient, projectId: ProjectId, id: InstallationId) => sql<{
  readonly secret: Uint8Array
  readonly headers: Uint8Array | null
  readonly names: ReadonlyArray<string>
}>`
  SELECT sealed AS secret, headers, header_names AS names
  FROM webhook_secrets JOIN webhooks USING (project_id, installation_id)
  WHERE project_id = ${projectId} AND installation_id = ${id} AND retires_at = 'infinity'`

/**
 * An SQL expression over `webhooks`: the sealed secrets that sign a delivery now, in base64, the newest first, separated by spaces. The
 * sealed headers of the caller follow after `|`, if there are any.
 */
export const validSecrets = `(
  SELECT string_agg(encode(sealed, 'base64'), ' ' ORDER BY secret.version DESC) FROM webhook_secrets secret
  WHERE secret.project_id = webhooks.project_id AND secret.installation_id = webhooks.installation_id
    AND retires_at > now()
) || coalesce('|' || encode(headers, 'base64'), '')`

/** The secrets to seal with a new key: those that still sign deliveries. The others are never opened again. */
export const signingSecrets: SealedTable = {
  kind: "webhook",
  page: (sql, after, limit) => sql<SealedValue>`
    SELECT project_id AS "projectId", installation_id AS id, version, sealed
    FROM webhook_secrets
    WHERE (project_id, installation_id, version) > (${after.projectId}, ${after.id}, ${after.version}::int)
      AND retires_at > now()
    ORDER BY project_id, installation_id, version LIMIT ${limit}::int`,
  // Locks webhooks in the order of project and installation, and each webhook before its secrets. A rotation uses the same
  // order, so no deadlock occurs.
  replace: (sql, { ids, next, projectIds, sealed, versions }) =>
    Effect.map(
      sql`
        WITH change AS MATERIALIZED (
          SELECT given.*
          FROM unnest(${projectIds}::text[], ${ids}::text[], ${versions}::int[], ${sealed}::bytea[], ${next}::bytea[])
              AS given (project_id, installation_id, version, sealed, next)
            JOIN webhooks USING (project_id, installation_id) JOIN projects USING (project_id)
          WHERE ${livesHere(sql, sql`move_state`)}
          ORDER BY given.project_id, given.installation_id FOR NO KEY UPDATE OF webhooks
        )
        UPDATE webhook_secrets SET sealed = change.next FROM change
        WHERE webhook_secrets.project_id = change.project_id
          AND webhook_secrets.installation_id = change.installation_id
          AND webhook_secrets.version = change.version AND webhook_secrets.sealed = change.sealed
        RETURNING 1`,
      (rows) => rows.length
    )
}

type Box = SecretBox["Service"]

const kind = "headers of webhook"
const ownerOf = (projectId: ProjectId, id: InstallationId) => [kind, projectId, id]
const decode = Schema.decodeSync(Schema.fromJsonString(WebhookHeaders))

/** Headers as they are stored. `sealed` is null if there are none. */
export interface StoredHeaders {
  readonly sealed: Uint8Array | null
  readonly names: ReadonlyArray<string>
}

export const noHeaders: StoredHeaders = { sealed: null, names: [] }

export const openHeaders = (box: Box, projectId: ProjectId, id: InstallationId, sealed: Uint8Array) =>
  Effect.map(box.open(ownerOf(projectId, id), sealed), (json) => Redacted.make(decode(Redacted.value(json))))

/** Returns the headers to store: those that are stored if `headers` are the same, or are absent. */
export const sealHeaders = Effect.fnUntraced(function* (
  box: Box,
  projectId: ProjectId,
  id: InstallationId,
  stored: StoredHeaders,
  headers: WebhookHeaders | undefined
) {
  if (headers === undefined) return stored
  const names = Object.keys(headers)
  if (names.length === 0) return noHeaders
  if (stored.sealed !== null) {
    // Headers that no key opens are replaced.
    const before = yield* Effect.option(openHeaders(box, projectId, id, stored.sealed))
    if (before._tag === "Some" && comparable(Redacted.value(before.value)) === comparable(headers)) return stored
  }
  return { sealed: yield* box.seal(ownerOf(projectId, id), Redacted.make(JSON.stringify(headers))), names }
})

/** Neither the order nor the case of names has a meaning. */
const comparable = (headers: WebhookHeaders) =>
  canonicalJson(
    Object.entries(headers)
      .map(([name, value]) => [name.toLowerCase(), value])
      .toSorted()
  )

export const sealedHeaders = sealedColumn(kind, {
  table: "webhooks",
  id: "installation_id",
  column: "headers",
  isOptional: true
})
