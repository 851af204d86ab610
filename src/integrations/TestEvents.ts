/**
 * Test events, with which operators check an endpoint. A test event is signed like a delivery and sent once, at once, even if
 * the webhook is disabled. It is not stored, and does not change the health of the endpoint.
 */
import { Clock, Context, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { EventId, type InstallationId, type ProjectId } from "../api/schema/Ids.ts"
import { testEventType } from "../api/integrations/Events.ts"
import { Audit, Operator } from "../platform/operators/Audit.ts"
import { newId } from "../platform/NewId.ts"
import { type ProjectUnknown, requireProject } from "../platform/operators/ProjectUnknown.ts"
import { SecretBox } from "../platform/secrets/SecretBox.ts"
import { currentOrNewTraceparent } from "../platform/telemetry/TraceContext.ts"
import { bodyOf, headersOf, secretsOf } from "./deliveries/Attempt.ts"
import { validSecrets } from "./deliveries/DeliveryLoop/Visits.ts"
import { Sender } from "./endpoints/Sender.ts"
import { type CommandRefused, webhookUnknown } from "./CommandRefused.ts"

interface Answer {
  /** HTTP status; null if there was no answer. */
  readonly status: number | null
  readonly durationMs: number
  /** The failure code of the attempt log; null if there was an answer. */
  readonly errorCode: string | null
}

export class TestEvents extends Context.Service<
  TestEvents,
  {
    readonly send: (
      projectId: ProjectId,
      installationId: string
    ) => Effect.Effect<Answer, ProjectUnknown | CommandRefused, Operator>
  }
>()("developer-api/integrations/TestEvents") {
  static readonly layer = Layer.effect(
    TestEvents,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const sender = yield* Sender
      const audit = yield* Audit
      const open = secretsOf(yield* SecretBox)

      return {
        send: Effect.fn("TestEvents.send")(function* (projectId, installationId) {
          yield* requireProject(sql, projectId)
          const [webhook] = yield* Effect.orDie(target(sql, projectId, installationId))
          if (webhook === undefined) return yield* webhookUnknown(projectId, installationId)
          const startedAt = yield* Clock.currentTimeMillis
          const body = bodyOf({
            projectId,
            installationId: webhook.installationId,
            eventId: EventId.make(yield* newId("evt")),
            type: testEventType,
            occurredAt: new Date(startedAt),
            data: "{}"
          })
          const secrets = yield* open({ ...webhook, projectId })
          const [took, outcome] = yield* Effect.timed(
            sender.send({
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
          yield* audit.record(projectId, { action: "webhook.test", target: installationId, detail: answer })
          return answer
        })
      }
    })
  )
}

const target = (sql: SqlClient.SqlClient, projectId: ProjectId, installationId: string) => sql<{
  readonly installationId: InstallationId
  readonly endpointUrl: string
  readonly secrets: string
}>`
  SELECT installation_id AS "installationId", endpoint_url AS "endpointUrl", ${validSecrets(sql)} AS secrets
  FROM webhooks WHERE project_id = ${projectId} AND installation_id = ${installationId}`
