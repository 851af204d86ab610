/** Deliveries of the real service, verified as by a receiver, with the secret that the client returned. */
import { assert, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { createServer, type IncomingHttpHeaders } from "node:http"
import { createClient } from "../../src/client/PromiseClient.ts"
import { verifyWebhookPromise, type WebhookDelivery, WebhookInvalid } from "../../src/client/Webhooks.ts"
import { startServer } from "../support/TestServer.ts"
import { until } from "../support/Waiting.ts"

interface Delivery {
  readonly headers: IncomingHttpHeaders
  readonly body: Uint8Array
}

/** A receiver that keeps its deliveries. */
const receiving = Effect.acquireRelease(
  Effect.callback<{ readonly url: string; readonly deliveries: ReadonlyArray<Delivery>; readonly close: () => void }>(
    (resume) => {
      const deliveries: Array<Delivery> = []
      const server = createServer((request, response) => {
        const chunks: Array<Buffer> = []
        request.on("data", (chunk: Buffer) => chunks.push(chunk))
        request.on("end", () => {
          deliveries.push({ headers: request.headers, body: Buffer.concat(chunks) })
          response.end()
        })
      })
      server.listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" ? address?.port : undefined
        resume(
          Effect.succeed({
            url: `http://127.0.0.1:${port}/hooks`,
            deliveries,
            close: () => {
              server.close()
              server.closeAllConnections()
            }
          })
        )
      })
    }
  ),
  ({ close }) => Effect.sync(close)
)

const pipelines = [
  {
    id: "pipe_sales",
    name: "Sales",
    stages: [
      { id: "stage_new", name: "New" },
      { id: "stage_offer", name: "Offer" }
    ]
  }
]

const verify = (delivery: WebhookDelivery) => Effect.promise(() => verifyWebhookPromise(delivery))

it.live(
  "the client verifies and decodes deliveries of the service before and after a rotation of the secret",
  function* () {
    const server = yield* startServer({ WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8" })
    const { token } = yield* server.seed({
      project: { defaultPipelineId: "pipe_sales" },
      pipelines,
      installations: [{ id: "ins_shop", name: "Shop" }]
    })
    const { deliveries, url } = yield* receiving
    const { deals, webhooks } = createClient({ baseUrl: server.url, token })
    const params = { installationId: "ins_shop" }
    const configured = yield* Effect.promise(() =>
      webhooks.configureWebhook({
        params,
        payload: {
          endpointUrl: url,
          eventTypes: ["crm.deal.created.v1", "crm.deal.stage_changed.v1"],
          expectedVersion: null
        }
      })
    )
    const old = configured.body.signingSecret ?? ""
    const created = yield* Effect.promise(() => deals.createDeal({ payload: { title: "Espresso machines" } }))
    const dealId = created.body.resourceId
    yield* until(() => deliveries.length === 1)
    const [first] = deliveries
    assert.isDefined(first)
    const event = yield* verify({ ...first, secrets: old })
    assert.strictEqual(event.type === "crm.deal.created.v1" && `${event.data.deal.id}`, dealId)

    const rotated = yield* Effect.promise(() =>
      webhooks.rotateWebhookSecret({ params, payload: { expectedVersion: 1 } })
    )
    const fresh = rotated.body.signingSecret ?? ""
    yield* Effect.promise(() => deals.patchDeal({ params: { dealId }, payload: { stageId: "stage_offer" } }))
    yield* until(() => deliveries.length === 2)
    const [, second] = deliveries
    assert.isDefined(second)
    for (const secrets of [old, fresh, [fresh, old]]) {
      const moved = yield* verify({ ...second, secrets })
      assert.strictEqual(moved.type === "crm.deal.stage_changed.v1" && `${moved.data.previousStageId}`, "stage_new")
    }
    const refused = yield* Effect.promise(() =>
      verifyWebhookPromise({ ...first, secrets: fresh }).catch((error: unknown) => error)
    )
    assert.strictEqual(refused instanceof WebhookInvalid && refused.reason, "signature_invalid")
  }
)
