import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { InstallationId, ProjectId } from "../../api/Ids.ts"
import type { SecretBox } from "../../platform/SecretBox.ts"

/** Maximum number of secrets that sign a delivery: the one in force and those in their overlap (contract §10). */
export const signingSecretsMax = 3

/** What the signing secrets of a webhook are sealed for. */
export const secretOwner = (projectId: ProjectId, id: InstallationId) => ["webhook", projectId, id]

interface Row {
  readonly projectId: ProjectId
  readonly installationId: InstallationId
  readonly sealed: Uint8Array
}

/** The webhooks, of at most `limit`, whose secret in force can't be opened with this key. */
export const unreadable = Effect.fn("Webhooks.unreadable")(function* (
  sql: SqlClient.SqlClient,
  box: SecretBox["Service"],
  limit: number
) {
  const rows = yield* sql<Row>`
    SELECT project_id AS "projectId", installation_id AS "installationId", sealed
    FROM webhook_secrets WHERE retires_at = 'infinity' LIMIT ${limit}::int`
  const fails = ({ installationId, projectId, sealed }: Row) =>
    Effect.isFailure(box.open(secretOwner(projectId, installationId), sealed))
  return (yield* Effect.filter(rows, fails)).map(({ installationId, projectId }) => `${projectId}/${installationId}`)
})
