/** Disables webhooks whose endpoints are gone or have failed for too long (contract §10). */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { DisabledReason } from "../../api/integrations/WebhookHealth.ts"
import { recordAction, service } from "../../operating/Audit.ts"
import { countDisabled } from "./DeliveryMetrics.ts"
import { type Endpoint, hasFailedTooLong } from "../Endpoint.ts"

/**
 * Common table expressions that disable the enabled webhooks in `chosen` (project, installation), and mark their endpoints
 * (`discarding`), so that the pending deliveries are dead-lettered. `disabled` has the webhooks that were disabled. Later claims
 * lease no delivery of a disabled webhook.
 */
export const disableChosen = (sql: SqlClient.SqlClient, reason: DisabledReason) => sql`
  disabled AS (
    UPDATE webhooks SET enabled = false, disabled_reason = ${reason}::text, version = version + 1,
      updated_at = greatest(updated_at, now())
    FROM chosen
    WHERE webhooks.project_id = chosen.project_id AND webhooks.installation_id = chosen.installation_id AND enabled
    RETURNING webhooks.project_id, webhooks.installation_id
  ),
  marked AS (
    UPDATE endpoint_health health SET discarding = true, next_due_at = NULL FROM disabled
    WHERE health.project_id = disabled.project_id AND health.installation_id = disabled.installation_id
  )`

/** An endpoint, and the version of the webhook that an attempt was claimed with. */
interface Attempted extends Endpoint {
  readonly version: number
}

/** Disables webhooks by `statementOf`. Each leaves an audit entry, a line in the log and a count. Returns the endpoints that are locked. */
export const disable = (
  sql: SqlClient.SqlClient,
  endpoints: ReadonlyArray<Attempted>,
  reason: "gone" | "failing",
  disableAfterMillis: number
) =>
  Effect.gen(function* () {
    const rows = yield* statementOf(sql, endpoints, reason, disableAfterMillis)
    for (const { installationId, projectId } of rows.filter(({ isDisabled }) => isDisabled)) {
      yield* Effect.annotateLogs(Effect.logWarning("A webhook was disabled"), { projectId, installationId, reason })
      yield* countDisabled(reason)
    }
    return rows.filter(({ isDisabled }) => !isDisabled)
  })

/**
 * Disables webhooks that still have the version of the attempt: as `gone`, or as `failing` if their endpoints have failed for
 * `disableAfterMillis`. Returns the disabled ones, and those whose rows other transactions have locked, which are skipped. The rows of a
 * webhook and of its health are locked in the order of the configure operation, so no deadlock occurs.
 */
const statementOf = (
  sql: SqlClient.SqlClient,
  endpoints: ReadonlyArray<Attempted>,
  reason: "gone" | "failing",
  disableAfterMillis: number
) => sql<Endpoint & { readonly isDisabled: boolean }>`
  WITH attempted AS MATERIALIZED (
    SELECT * FROM unnest(
      ${endpoints.map(({ projectId }) => projectId)}::text[], ${endpoints.map(({ installationId }) => installationId)}::text[],
      ${endpoints.map(({ version }) => version)}::int[]
    ) AS attempted (project_id, installation_id, version)
  ),
  free AS MATERIALIZED (
    SELECT attempted.project_id, attempted.installation_id, version = current AND (
        ${reason}::text = 'gone' OR ${hasFailedTooLong(sql, disableAfterMillis)}
      ) AS is_chosen
    FROM attempted, LATERAL (
      SELECT version AS current FROM webhooks
      WHERE project_id = attempted.project_id AND installation_id = attempted.installation_id
      FOR NO KEY UPDATE SKIP LOCKED
    ) webhook, LATERAL (
      SELECT failures, failing_since FROM endpoint_health
      WHERE project_id = attempted.project_id AND installation_id = attempted.installation_id
      FOR NO KEY UPDATE SKIP LOCKED
    ) health
  ),
  chosen AS (SELECT project_id, installation_id FROM free WHERE is_chosen),
  ${disableChosen(sql, reason)},
  ${recordAction(
    sql,
    { actor: service, action: "webhook.disable", target: { column: "installation_id" }, detail: { reason } },
    "disabled"
  )}
  SELECT project_id AS "projectId", installation_id AS "installationId", true AS "isDisabled" FROM disabled
  UNION ALL
  SELECT project_id, installation_id, false FROM attempted
  WHERE (project_id, installation_id) NOT IN (SELECT project_id, installation_id FROM free) AND EXISTS (
    SELECT FROM webhooks WHERE project_id = attempted.project_id AND installation_id = attempted.installation_id
  )`
