/**
 * Endpoints that configure webhooks, with the headers that a caller adds to deliveries, rotate their secrets and retry deliveries
 * (contract §10).
 */
import { Predicate, Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, Destructive, Examples } from "../Access.ts"
import { Changed, IfMatch, MutationHeaders, mutationProblems, replayed, ResourceId } from "../Endpoints.ts"
import { ETag, ExpectedVersion, text, Version } from "../schema/Fields.ts"
import { DeliveryId, InstallationId } from "../schema/Ids.ts"
import {
  InstallationNotFound,
  PreconditionFailed,
  VersionConflict,
  WebhookReferenceInvalid,
  WebhookStateConflict
} from "../Problems.ts"
import { JsonBody } from "../Requests.ts"
import { getDelivery, listDeliveries } from "./Deliveries.ts"
import { type EventType, EventTypes, testEventType } from "./Events.ts"
import { getReplay, replayDeliveries } from "./Replays.ts"
import { getWebhook } from "./WebhookHealth.ts"

/** The headers of a delivery that the service sets. */
export const deliveryHeaders = [
  "webhook-id",
  "webhook-timestamp",
  "webhook-signature",
  "content-type",
  "user-agent",
  "traceparent"
] as const

/** Names that a caller cannot set: the headers of the service, of the connection, and of the body. */
const reserved: ReadonlySet<string> = new Set([
  ...deliveryHeaders,
  "host",
  "accept-encoding",
  "connection",
  "expect",
  "keep-alive",
  "proxy-authenticate",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "content-encoding",
  "content-language",
  "content-length",
  "content-location",
  "content-range"
])

const headersMax = 10

/** A token of RFC 9110, section 5.6.2. */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/

export const WebhookHeaders = Schema.Record(
  Schema.String,
  Schema.String.check(
    Schema.isPattern(/^[\x20-\x7e]{1,1024}$/, { expected: "a string of 1 to 1024 visible ASCII characters or spaces" })
  )
).check(Schema.isMaxProperties(headersMax, { expected: `an object of at most ${headersMax} headers` }))
export type WebhookHeaders = typeof WebhookHeaders.Type

/** Lists the faults of the names in `headers`, each at its name. Names are compared without case. */
const faultsOfNames = (headers: unknown) => {
  const seen = new Set<string>()
  return Object.keys(Predicate.isObject(headers) ? headers : {}).flatMap((name) => {
    const key = name.toLowerCase()
    const issue = !token.test(name)
      ? "must have a name that is a token of 1 to 64 characters (RFC 9110)"
      : reserved.has(key)
        ? "must have another name: this service or the connection sets this header"
        : seen.has(key)
          ? "must not repeat a name: names are compared without case"
          : undefined
    seen.add(key)
    return issue === undefined ? [] : [{ path: ["headers", name], issue }]
  })
}

/** Only the form of the URL is checked here. The handler of `configureWebhook` checks which addresses are allowed. */
const EndpointUrl = text(1, 2048).check(
  Schema.makeFilter((url: string) => URL.canParse(url), {
    expected: "a URL of at most 2048 characters",
    toJsonSchema: () => ({ format: "uri" })
  })
)

export const WebhookConfigure = Schema.Struct({
  endpointUrl: EndpointUrl.annotate({
    description:
      "The URL to which events are sent: `https` at a public address, `https` or `http` at an address that the operator allows; at most 2048 characters."
  }),
  eventTypes: EventTypes,
  headers: Schema.optionalKey(
    WebhookHeaders.annotate({
      description:
        "At most 10 headers that each delivery also has, by name: values of 1 to 1024 visible ASCII characters or spaces, which are never shown. Absent keeps the headers, {} removes them."
    })
  ),
  expectedVersion: Schema.NullOr(Version).annotate({
    description:
      "The version of the webhook that the caller has read, from 1 (getWebhook has it); null for a new webhook."
  })
})
  .check(
    Schema.makeFilter(
      ({ headers }) => faultsOfNames(headers),
      // This rule is checked even if members have faults.
      { "~structural": true }
    )
  )
  .annotate({ identifier: "DeveloperOutboundWebhookConfigure" })
export type WebhookConfigure = typeof WebhookConfigure.Type

export const WebhookRotate = Schema.Struct({ expectedVersion: ExpectedVersion }).annotate({
  identifier: "DeveloperOutboundWebhookRotate"
})
export type WebhookRotate = typeof WebhookRotate.Type

const WebhookReceipt = Schema.Struct({
  resourceId: ResourceId,
  changed: Changed,
  signingSecret: Schema.optionalKey(
    Schema.String.annotate({
      description:
        "The secret that signs deliveries: `whsec_` and base64. Only the first answer has it; a replay does not."
    })
  )
}).annotate({ identifier: "DeveloperOutboundWebhookMutationResponse" })

const answer = HttpApiSchema.WithHeaders(WebhookReceipt, { etag: ETag, ...replayed })

const secretExample = "whsec_VGhpcyBpcyBvbmx5IGFuIGV4YW1wbGUsIGRvbid0IQ=="
const receiptExample = { resourceId: "ins_till", changed: true }
const events: ReadonlyArray<EventType> = ["crm.deal.created.v1", "crm.deal.stage_changed.v1"]

const path = "/v1/developer/integrations/:installationId/outbound-webhook"
const access = { scope: "integrations.webhooks.write", module: "integrations", policy: "write" } as const

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

const testWebhook = HttpApiEndpoint.post("testWebhook", `${path}/test`, {
  params: { installationId: InstallationId },
  success: WebhookTest,
  error: [InstallationNotFound, WebhookStateConflict]
})
  .annotate(Access, access)
  .annotate(Examples, { answer: { statusCode: 204, durationMs: 42, errorCode: null } })
  .annotate(OpenApi.Summary, "Send a test event")
  .annotate(
    OpenApi.Description,
    `Sends one signed \`${testEventType}\` to the installation's webhook now, enabled or not, and shows the answer. Nothing is stored. ` +
      "An answer of 2xx ends a pause of the endpoint: what is overdue is sent at once."
  )

export class WebhooksGroup extends HttpApiGroup.make("webhooks")
  .add(
    HttpApiEndpoint.put("configureWebhook", path, {
      params: { installationId: InstallationId },
      headers: { ...MutationHeaders, ...IfMatch },
      payload: WebhookConfigure,
      success: answer,
      error: [...mutationProblems, PreconditionFailed, InstallationNotFound, VersionConflict, WebhookReferenceInvalid]
    })
      .middleware(JsonBody)
      .annotate(Access, access)
      .annotate(Examples, {
        request: {
          endpointUrl: "https://shop.example.com/hooks",
          eventTypes: events,
          headers: { authorization: "Bearer of-the-receiver" },
          expectedVersion: null
        },
        answer: { ...receiptExample, signingSecret: secretExample }
      })
      .annotate(OpenApi.Summary, "Configure the outbound webhook")
      .annotate(
        OpenApi.Description,
        "Creates the installation's webhook if `expectedVersion` is null; otherwise changes the webhook that has this version. A " +
          "disabled webhook is enabled again. The endpoint is a URL without credentials and fragment: `https` at a public address, or an " +
          "address that the operator allows. The first answer has the current signing secret. A new webhook gets a new secret; a changed " +
          "webhook keeps its own."
      ),
    // `getWebhook` follows the operation that creates a webhook, so that a reader who tries the samples in order has one.
    getWebhook,
    HttpApiEndpoint.post("rotateWebhookSecret", `${path}/rotate-secret`, {
      params: { installationId: InstallationId },
      headers: { ...MutationHeaders, ...IfMatch },
      payload: WebhookRotate,
      success: answer,
      error: [...mutationProblems, PreconditionFailed, InstallationNotFound, VersionConflict, WebhookStateConflict]
    })
      .middleware(JsonBody)
      .annotate(Access, access)
      .annotate(Destructive, true)
      .annotate(Examples, {
        request: { expectedVersion: 1 },
        answer: { ...receiptExample, signingSecret: secretExample }
      })
      .annotate(OpenApi.Summary, "Rotate the signing secret")
      .annotate(
        OpenApi.Description,
        "Replaces the signing secret, for example because others may know it. The new secret signs at once. For 24 hours deliveries " +
          "also have a signature of the old secret. Only the first answer has the new secret; a replay does not."
      ),
    testWebhook,
    listDeliveries,
    getDelivery,
    HttpApiEndpoint.post("retryDelivery", `${path}/deliveries/:deliveryId/retry`, {
      params: { installationId: InstallationId, deliveryId: DeliveryId },
      headers: MutationHeaders,
      success: HttpApiSchema.WithHeaders(WebhookReceipt, replayed),
      error: [...mutationProblems, InstallationNotFound, WebhookReferenceInvalid, WebhookStateConflict]
    })
      .annotate(Access, access)
      .annotate(Examples, { answer: { resourceId: "dlv_0193f0cbd4e57f70819203a4b5c6d7e8", changed: true } })
      .annotate(OpenApi.Summary, "Retry a dead delivery")
      .annotate(
        OpenApi.Description,
        "Sends a dead delivery again: returns it to the queue, with a new retry schedule. The webhook must be enabled and " +
          "still subscribe to the type of the event. A delivery is retried at most 20 times. A pending delivery cannot be retried: it is sent at " +
          "its `nextAttemptAt`. `deliveryId` is an `id` of `listDeliveries` with `status` `dead`. `resourceId` is the id of the delivery."
      ),
    replayDeliveries,
    getReplay
  )
  .annotate(OpenApi.Title, "Webhook settings and deliveries")
  .annotate(
    OpenApi.Description,
    "The webhook of an installation: its endpoint, subscriptions, signing secret and health, and its deliveries."
  ) {}
