/** Disables webhooks whose endpoints are gone or have failed for too long (contract §10). */
import { Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { DisabledReason } from "../../api/integrations/WebhookHealth.ts"
import { once, withTimeout } from "../../platform/database/Database.ts"
import { type Failing, isFailing, type Recorded } from "./DeliveryLoop/Record.ts"
import type { Ended } from "./DeliveryLoop/Results.ts"
import { type Endpoint, keyOf } from "./DeliveryLoop/Visits.ts"
import { isGone } from "./DeliverySchedule.ts"

/**
 * Common table expressions that disable an enabled webhook if the condition holds, and mark its endpoint (`discarding`), so that
 * its pending deliveries are dead-lettered. `disabled` has a row if the webhook was disabled. Later claims lease no delivery of
 * a disabled webhook.
 */
export const disableWebhook = (
  sql: SqlClient.SqlClient,
  { installationId, projectId }: Endpoint,
  reason: DisabledReason,
  condition: Statement.Fragment
) => sql`
  disabled AS (
    UPDATE webhooks SET enabled = false, disabled_reason = ${reason}::text, version = version + 1,
      updated_at = greatest(updated_at, now())
    WHERE project_id = ${projectId} AND installation_id = ${installationId} AND enabled AND ${condition}
    RETURNING project_id, installation_id
  ),
  marked AS (
    UPDATE endpoint_health health SET discarding = true, next_due_at = NULL FROM disabled
    WHERE health.project_id = disabled.project_id AND health.installation_id = disabled.installation_id
  )`

/** An endpoint, and the version of the URL that an attempt called. */
interface Attempted extends Endpoint {
  readonly urlVersion: number
}

/** Disables the webhook of an endpoint that has answered 410, unless the webhook's URL has changed meanwhile. */
export const disableGone = (sql: SqlClient.SqlClient, endpoint: Attempted) => sql`
  WITH ${disableWebhook(sql, endpoint, "gone", sql`url_version = ${endpoint.urlVersion}::int`)} SELECT FROM disabled`

/**
 * Disables the webhook of an endpoint that has failed for too long, unless the webhook was configured meanwhile. The rows of the
 * webhook and of its health are locked before the condition is checked. The configure operation locks them in the same order, so
 * no deadlock occurs.
 */
export const disableFailing = (sql: SqlClient.SqlClient, endpoint: Attempted, failing: Failing) => sql`
  WITH webhook AS MATERIALIZED (
    SELECT project_id, installation_id FROM webhooks
    WHERE project_id = ${endpoint.projectId} AND installation_id = ${endpoint.installationId}
      AND url_version = ${endpoint.urlVersion}::int
    FOR NO KEY UPDATE
  ),
  failing AS MATERIALIZED (
    SELECT FROM webhook JOIN endpoint_health health USING (project_id, installation_id)
    WHERE ${isFailing(sql, failing)}
    FOR NO KEY UPDATE OF health
  ),
  ${disableWebhook(sql, endpoint, "failing", sql`EXISTS (SELECT FROM failing)`)} SELECT FROM disabled`

const lastOf = (batch: ReadonlyArray<Ended>) => new Map(batch.map(({ result }) => [keyOf(result), result]))

/** Disables the webhooks whose endpoints answered 410. Returns the endpoints whose webhooks other transactions have locked. */
export const disableAllGone = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, batch: ReadonlyArray<Ended>) {
  const locked = new Set<string>()
  for (const [key, result] of lastOf(batch.filter(({ result }) => isGone(result.statusCode)))) {
    yield* withTimeout(once(disableGone(sql, result))).pipe(
      Effect.catchTag("Contended", () => Effect.sync(() => void locked.add(key)))
    )
  }
  return locked
})

/**
 * Disables the webhooks of endpoints that have failed for too long. If this fails, the next failed attempt of the endpoint leads
 * to another try.
 */
export const disableAllFailing = (
  sql: SqlClient.SqlClient,
  endpoints: ReadonlyArray<Recorded>,
  batch: ReadonlyArray<Ended>,
  failing: Failing
) => {
  const last = lastOf(batch)
  return Effect.forEach(
    endpoints.flatMap((endpoint) => (endpoint.isFailing ? (last.get(keyOf(endpoint)) ?? []) : [])),
    (result) => Effect.ignore(withTimeout(once(disableFailing(sql, result, failing)))),
    { discard: true }
  )
}
