/** The endpoint that sends a test event to a webhook (contract §10). */
import { Schema } from "effect"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as OpenApi from "effect/http-api/OpenApi"
import { Access } from "../Access.ts"
import { Examples } from "../schema/Examples.ts"
import { InstallationId } from "../schema/Ids.ts"
import { InstallationNotFound, WebhookStateConflict } from "../Problems.ts"
import { testEventType } from "./Events.ts"

export const WebhookTest = Schema.Struct({
  statusCode: Schema.NullOr(Schema.Int).annotate({
    description: "The status of the answer; null if there was none."
  }),
  durationMs: Schema.Int.annotate({ description: "How long the endpoint took, in milliseconds." }),
  errorCode: Schema.NullOr(Schema.String).annotate({
    description: "Why there was no answer, such as `timeout`; null if there was one."
  })
}).annotate({ identifier: "DeveloperOutboundWebhookTest" })
export type WebhookTest = typeof WebhookTest.Type

export const testWebhook = HttpApiEndpoint.post(
  "testWebhook",
  "/v1/developer/integrations/:installationId/outbound-webhook/test",
  {
    params: { installationId: InstallationId },
    success: WebhookTest,
    error: [InstallationNotFound, WebhookStateConflict]
  }
)
  .annotate(Access, { scope: "integrations.webhooks.write", module: "integrations", policy: "write" })
  .annotate(Examples, { answer: { statusCode: 204, durationMs: 42, errorCode: null } })
  .annotate(OpenApi.Summary, "Send a test event")
  .annotate(
    OpenApi.Description,
    `Sends one signed \`${testEventType}\` to the installation's webhook now, enabled or not, and shows the answer. Nothing is stored. ` +
      "An answer of 2xx ends a pause of the endpoint: what is overdue is sent at once."
  )
