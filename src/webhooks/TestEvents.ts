/**
 * Test events, with which callers and operators check an endpoint. A test event is signed like a delivery. It is sent immediately
 * and only once, even if the webhook is disabled. It is not stored. An answer of 2xx ends a pause of the endpoint.
 */
import { Clock, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { EventId, type InstallationId, type ProjectId } from "../api/schema/Ids.ts"
import { testEventType } from "../api/integrations/Events.ts"
import type { WebhookTest } from "../api/integrations/Webhooks.ts"
import { recordDone } from "../operating/Audit.ts"
import { newId } from "../platform/Ids.ts"
import { noSuchRecord, requireProject, servedProject } from "../operating/Refusals.ts"
import { Notifier } from "../outbox/Outbox.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { formatInstant } from "../sql/Times.ts"
import { currentOrNewTraceparent } from "../telemetry/Telemetry.ts"
import { bodyOf, headersOf, secretsOf } from "./delivery/Attempt.ts"
import { validSecrets } from "./WebhookSecrets.ts"
import { recovered } from "./Endpoint.ts"
import { isSuccess, Sender } from "./address/Sender.ts"

interface Target {
  readonly installationId: InstallationId
  readonly version: number
  readonly endpointUrl: string
  readonly secrets: string
}

export const makeSendTest = Effect.gen(function* () {
  const sender = yield* Sender
  const open = secretsOf(yield* SecretBox)
  return Effect.fn("sendTestEvent")(function* (projectId: ProjectId, webhook: Target) {
    const startedAt = yield* Clock.currentTimeMillis
    const body = bodyOf({
      projectId,
      installationId: webhook.installationId,
      eventId: EventId.make(yield* newId("evt")),
      type: testEventType,
      occurredAt: formatInstant(startedAt),
      data: "{}"
    })
    const [took, outcome] = yield* Effect.timed(
      sender.send({
        url: webhook.endpointUrl,
        body,
        ...headersOf(yield* open({ ...webhook, projectId }), {
          webhookId: yield* newId("tst"),
          now: startedAt,
          body,
          traceparent: yield* currentOrNewTraceparent
        })
      })
    )
    const answer: WebhookTest = {
      statusCode: outcome._tag === "answered" ? outcome.status : null,
      durationMs: Math.round(Duration.toMillis(took)),
      errorCode: outcome._tag === "failed" ? outcome.code : null
    }
    return { answer, isSuccess: isSuccess(outcome) }
  })
})

export const target = (sql: SqlClient.SqlClient, projectId: ProjectId, installationId: string) => sql<Target>`
  SELECT installation_id AS "installationId", version, endpoint_url AS "endpointUrl", ${sql.literal(validSecrets)} AS secrets
  FROM webhooks WHERE project_id = ${projectId} AND installation_id = ${installationId}`

/**
 * Ends the pause of an endpoint that has answered a test event, unless its webhook was changed since: another URL may have failed.
 * Returns a row if there was a pause.
 */
export const resume = (sql: SqlClient.SqlClient, projectId: ProjectId, { installationId, version }: Target) => sql`
  WITH ${servedProject(sql, projectId)}
  UPDATE endpoint_health SET ${sql.literal(recovered)} FROM project JOIN webhooks USING (project_id)
  WHERE endpoint_health.project_id = ${projectId} AND endpoint_health.installation_id = ${installationId}
    AND webhooks.installation_id = ${installationId} AND webhooks.version = ${version}::bigint
    AND (parked_until IS NOT NULL OR resting_until IS NOT NULL)
  RETURNING 1`

/**
 * Sends a test event for an operator. `status` is null if there was no answer. Otherwise `errorCode`, a code as in attempt logs, is
 * null.
 */
export const sendTestEvent = Effect.fnUntraced(function* (projectId: ProjectId, installationId: string) {
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  const [webhook] = yield* target(sql, projectId, installationId)
  if (webhook === undefined) return yield* noSuchRecord(projectId, "webhook for installation", installationId)
  const sent = yield* (yield* makeSendTest)(projectId, webhook)
  const { durationMs, errorCode, statusCode } = sent.answer
  const answer = { status: statusCode, durationMs, errorCode }
  yield* recordDone(projectId, { action: "webhook.test", target: installationId, detail: answer })
  if (sent.isSuccess && (yield* resume(sql, projectId, webhook)).length > 0) {
    yield* (yield* Notifier).changed(projectId, webhook.installationId)
  }
  return answer
})
