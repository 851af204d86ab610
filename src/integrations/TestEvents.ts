/**
 * Test events, with which operators check an endpoint. A test event is signed like a delivery. It is sent immediately and only
 * once, even if the webhook is disabled. It is not stored, and does not change the health of the endpoint.
 */
import { Clock, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { EventId, type InstallationId, type ProjectId } from "../api/schema/Ids.ts"
import { testEventType } from "../api/integrations/Events.ts"
import { type Audited, Operator, recordAction } from "../platform/operators/Audit.ts"
import { newId } from "../platform/NewId.ts"
import { requireProject } from "../platform/operators/ProjectUnknown.ts"
import { lacks } from "../platform/operators/Refused.ts"
import { SecretBox } from "../platform/secrets/SecretBox.ts"
import { currentOrNewTraceparent } from "../platform/telemetry/TraceContext.ts"
import { bodyOf, headersOf, secretsOf } from "./deliveries/Attempt.ts"
import { validSecrets } from "./deliveries/DeliveryLoop/Visits.ts"
import { Sender } from "./endpoints/Sender.ts"

/** Sends a test event. `status` is null if there was no answer. Otherwise `errorCode`, a code as in attempt logs, is null. */
export const sendTestEvent = Effect.fn("sendTestEvent")(function* (projectId: ProjectId, installationId: string) {
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  yield* requireProject(sql, projectId)
  const [webhook] = yield* target(sql, projectId, installationId)
  if (webhook === undefined) return yield* lacks(projectId, "webhook for installation", installationId)
  const startedAt = yield* Clock.currentTimeMillis
  const body = bodyOf({
    projectId,
    installationId: webhook.installationId,
    eventId: EventId.make(yield* newId("evt")),
    type: testEventType,
    occurredAt: new Date(startedAt),
    data: "{}"
  })
  const secrets = yield* secretsOf(yield* SecretBox)({ ...webhook, projectId })
  const [took, outcome] = yield* Effect.timed(
    (yield* Sender).send({
      url: webhook.endpointUrl,
      body,
      headers: headersOf(secrets, {
        webhookId: yield* newId("tst"),
        now: startedAt,
        body,
        traceparent: yield* currentOrNewTraceparent
      })
    })
  )
  const answer = {
    status: outcome._tag === "answered" ? outcome.status : null,
    durationMs: Math.round(Duration.toMillis(took)),
    errorCode: outcome._tag === "failed" ? outcome.code : null
  }
  yield* record(sql, projectId, { actor, action: "webhook.test", target: installationId, detail: answer })
  return answer
})

const target = (sql: SqlClient.SqlClient, projectId: ProjectId, installationId: string) => sql<{
  readonly installationId: InstallationId
  readonly endpointUrl: string
  readonly secrets: string
}>`
  SELECT installation_id AS "installationId", endpoint_url AS "endpointUrl", ${validSecrets(sql)} AS secrets
  FROM webhooks WHERE project_id = ${projectId} AND installation_id = ${installationId}`

/** Writes the audit entry. It depends only on the project, because a test event changes no row. */
const record = (sql: SqlClient.SqlClient, projectId: ProjectId, action: Audited) => sql`
  WITH project AS (SELECT project_id FROM projects WHERE project_id = ${projectId}),
  ${recordAction(sql, action, "project")}
  SELECT FROM project`
