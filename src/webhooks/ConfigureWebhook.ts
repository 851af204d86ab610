/** SQL: `configure` creates, changes or enables a webhook; `rotate` replaces its secret. */
import { Data, Duration, Option } from "effect"
import type { Statement } from "effect/sql"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { InstallationId, ProjectId } from "../api/schema/Ids.ts"
import type { WebhookConfigure } from "../api/integrations/Webhooks.ts"
import {
  InstallationNotFound,
  type PreconditionFailed,
  VersionConflict,
  WebhookReferenceInvalid,
  WebhookStateConflict
} from "../api/Problems.ts"
import { matches, type Mutation, plain, preconditionFailed, type Refusal } from "../commands/Command.ts"
import { recovered } from "./Endpoint.ts"
import { signingSecretsMax, type StoredHeaders } from "./WebhookSecrets.ts"

/**
 * Reads the installation, and locks its webhook. `seen` has the version of the webhook in the statement's snapshot, and the
 * secrets are read from the same snapshot. If the locked webhook has another version, the statement returns no row, and the
 * command is tried again.
 */
const target = (sql: Sql, id: InstallationId): Statement.Fragment => sql`
  installation AS MATERIALIZED (
    SELECT installations.id FROM command JOIN installations USING (project_id) WHERE installations.id = ${id}
  ),
  target AS MATERIALIZED (
    SELECT webhook.* FROM command, LATERAL (
      SELECT * FROM webhooks WHERE project_id = command.project_id AND installation_id = ${id} FOR NO KEY UPDATE
    ) webhook
  ),
  seen AS MATERIALIZED (
    SELECT webhooks.version FROM command JOIN webhooks USING (project_id) WHERE installation_id = ${id}
  )`

const holds = (sql: Sql) => sql.literal(matches("target.version"))

const version_conflict = ({ version }: Refusal) =>
  new VersionConflict({
    detail:
      version === null
        ? "The installation has no webhook yet: create it with expectedVersion null."
        : `The webhook is at version ${version}. Look at what has changed, then decide.`,
    currentVersion: version
  })

class SecretNotOpened extends Data.TaggedError("SecretNotOpened") {
  override get message() {
    return "The signing secret can't be opened: the key that sealed it is neither SECRET_KEY nor in SECRET_KEY_PREVIOUS"
  }
}

/** The current secret or headers are not those that were read before the statement. Nothing was changed. */
class SecretReplaced extends Data.TaggedError("SecretReplaced") {}

interface Configuration extends Omit<WebhookConfigure, "headers"> {
  /** Why the URL is not allowed; none if it is allowed. */
  readonly fault: Option.Option<string>
  /** The secret to store if the webhook is new. */
  readonly sealed: Uint8Array
  readonly headers: StoredHeaders
  /** The current secret before the statement, whether it could be opened, and the headers; null if there was no webhook. */
  readonly current: { readonly sealed: Uint8Array; readonly opens: boolean; readonly headers: StoredHeaders } | null
}

export const configure = (
  sql: Sql,
  projectId: ProjectId,
  id: InstallationId,
  { endpointUrl, eventTypes, current, expectedVersion, fault, headers, sealed }: Configuration,
  at: Date
): Mutation<
  | InstallationNotFound
  | SecretNotOpened
  | SecretReplaced
  | PreconditionFailed
  | VersionConflict
  | WebhookReferenceInvalid
> => ({
  at,
  decided: sql`
    ${target(sql, id)},
    in_force AS (
      SELECT sealed FROM webhook_secrets
      WHERE project_id = ${projectId} AND installation_id = ${id} AND retires_at = 'infinity'
    ),
    decided AS MATERIALIZED (
      SELECT command.*,
        CASE
          -- Checked here, so that a repeated command returns its first outcome even if the URL is no longer allowed.
          WHEN ${Option.isSome(fault)}::boolean THEN 'webhook_reference_invalid'
          WHEN installation.id IS NULL THEN 'installation_not_found'
          WHEN NOT ${holds(sql)} THEN 'precondition_failed'
          WHEN target.version IS DISTINCT FROM ${expectedVersion}::bigint THEN 'version_conflict'
          WHEN (in_force.sealed, target.headers) IS DISTINCT FROM
            (${current?.sealed ?? null}::bytea, ${current?.headers.sealed ?? null}::bytea) THEN 'secret_replaced'
          WHEN ${current?.opens === false}::boolean THEN 'secret_not_opened'
        END AS failure, NULL::text[] AS faults,
        ${id}::text AS resource_id, changed,
        CASE
          WHEN target.version IS DISTINCT FROM ${expectedVersion}::bigint OR NOT ${holds(sql)} THEN target.version
          ELSE coalesce(target.version, 0) + changed::int
        END AS version
      FROM command LEFT JOIN installation ON true LEFT JOIN target ON true LEFT JOIN in_force ON true, LATERAL (
        SELECT (target.endpoint_url, target.event_types, target.enabled, target.headers)
          IS DISTINCT FROM (${endpointUrl}::text, ${eventTypes}::text[], true, ${headers.sealed}::bytea)
      ) AS difference (changed)
      WHERE target.version IS NOT DISTINCT FROM (SELECT version FROM seen)
    )`,
  effect: sql`
    -- Of two concurrent creates, the second fails on the unique key and is retried.
    created AS (
      INSERT INTO webhooks
        (project_id, installation_id, endpoint_url, event_types, headers, header_names, enabled, version, updated_at)
      SELECT ${projectId}::text, ${id}::text, ${endpointUrl}::text, ${eventTypes}::text[],
        ${headers.sealed}::bytea, ${headers.names}::text[], true, 1, ${at}::timestamptz
      FROM applied WHERE NOT EXISTS (SELECT FROM target)
      RETURNING project_id, installation_id
    ),
    secret AS (
      INSERT INTO webhook_secrets (project_id, installation_id, version, sealed)
      SELECT project_id, installation_id, 1, ${sealed}::bytea FROM created
    ),
    health AS (INSERT INTO endpoint_health (project_id, installation_id) SELECT * FROM created),
    updated AS (
      UPDATE webhooks SET endpoint_url = ${endpointUrl}::text, event_types = ${eventTypes}::text[],
        headers = ${headers.sealed}::bytea, header_names = ${headers.names}::text[], enabled = true, disabled_reason = NULL,
        version = webhooks.version + 1, updated_at = greatest(webhooks.updated_at, ${at}::timestamptz)
      FROM applied, target
      WHERE webhooks.project_id = ${projectId} AND webhooks.installation_id = ${id} AND applied.changed
    ),
    unparked AS (
      UPDATE endpoint_health SET ${sql.literal(recovered)} FROM applied
      WHERE endpoint_health.project_id = ${projectId} AND endpoint_health.installation_id = ${id}
    )`,
  problems: {
    webhook_reference_invalid: () => new WebhookReferenceInvalid({ detail: Option.getOrElse(fault, () => "") }),
    ...preconditionFailed,
    ...plain(InstallationNotFound),
    version_conflict,
    secret_replaced: () => new SecretReplaced(),
    secret_not_opened: () => new SecretNotOpened()
  }
})

interface Rotation {
  readonly expectedVersion: number
  readonly sealed: Uint8Array
  /** Time for which the old secret also signs. */
  readonly overlap: Duration.Duration
}

export const rotate = (
  sql: Sql,
  projectId: ProjectId,
  id: InstallationId,
  { expectedVersion, overlap, sealed }: Rotation,
  at: Date
): Mutation<InstallationNotFound | PreconditionFailed | VersionConflict | WebhookStateConflict> => ({
  at,
  decided: sql`
    ${target(sql, id)},
    decided AS MATERIALIZED (
      SELECT command.*,
        CASE
          WHEN installation.id IS NULL THEN 'installation_not_found'
          WHEN target.version IS NULL THEN 'webhook_state_conflict'
          WHEN NOT ${holds(sql)} THEN 'precondition_failed'
          WHEN target.version <> ${expectedVersion}::bigint THEN 'version_conflict'
        END AS failure, NULL::text[] AS faults,
        ${id}::text AS resource_id, true AS changed,
        target.version + (target.version = ${expectedVersion}::bigint AND ${holds(sql)} IS NOT FALSE)::int AS version
      FROM command LEFT JOIN installation ON true LEFT JOIN target ON true
      WHERE target.version IS NOT DISTINCT FROM (SELECT version FROM seen)
    )`,
  effect: sql`
    updated AS (
      UPDATE webhooks SET version = webhooks.version + 1, updated_at = greatest(webhooks.updated_at, ${at}::timestamptz)
      FROM applied
      WHERE webhooks.project_id = ${projectId} AND webhooks.installation_id = ${id}
      RETURNING webhooks.version
    ),
    -- Deletes secrets whose overlap has ended, and the oldest secret if there would be more than the maximum.
    expired AS (
      DELETE FROM webhook_secrets USING applied
      WHERE webhook_secrets.project_id = ${projectId} AND webhook_secrets.installation_id = ${id}
        AND webhook_secrets.version NOT IN (
          SELECT version FROM webhook_secrets
          WHERE project_id = ${projectId} AND installation_id = ${id} AND retires_at > now()
          ORDER BY version DESC LIMIT ${signingSecretsMax - 1}::int
        )
    ),
    retired AS (
      UPDATE webhook_secrets SET retires_at = now() + ${Duration.toMillis(overlap)}::float8 * interval '1 millisecond'
      FROM applied
      WHERE webhook_secrets.project_id = ${projectId} AND webhook_secrets.installation_id = ${id}
        AND webhook_secrets.retires_at = 'infinity'
    ),
    secret AS (
      INSERT INTO webhook_secrets (project_id, installation_id, version, sealed)
      SELECT ${projectId}::text, ${id}::text, version, ${sealed}::bytea FROM updated
    )`,
  problems: { ...preconditionFailed, ...plain(InstallationNotFound, WebhookStateConflict), version_conflict }
})
