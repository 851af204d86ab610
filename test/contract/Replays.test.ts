/** Replays and test events that callers of the API start (contract §10). */
import { assert } from "@effect/vitest"
import { Duration, Effect, Schema } from "effect"
import { Replay } from "../../src/api/integrations/Replays.ts"
import { WebhookTest } from "../../src/api/integrations/Webhooks.ts"
import { requestTimeout } from "../../src/sql/Database.ts"
import {
  bodyOf,
  inTurn,
  layerOf,
  ok,
  open,
  openShop,
  receiver,
  slowly,
  status,
  verifies
} from "../webhooks/delivery/Deliveries.support.ts"
import { assertJson, decodes, problemOf, unversionedReceiptOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { slowDown } from "../support/Locks.ts"
import { TestServer } from "../support/TestServer.ts"
import { until } from "../support/Waiting.ts"
import { newKey } from "./Requests.ts"
import { callsOf, created, stageChanged, updated } from "./Webhooks.support.ts"

const longAgo = "2026-01-01T00:00:00Z"

const decodeReplay = decodes(Schema.toEncoded(Replay))
const decodeTest = decodes(Schema.toEncoded(WebhookTest))

const replayOf = (answer: Answer) => {
  assertJson(answer, 200)
  return decodeReplay(answer.json)
}

const testOf = (answer: Answer) => {
  assertJson(answer, 200)
  return decodeTest(answer.json)
}

/** Returns the calls on replays and tests of an installation's webhook. */
const operationsOf = (
  { send }: TestServer["Service"],
  { token }: { readonly token: string },
  installationId = "shop"
) => {
  const path = `/api/v1/developer/integrations/${installationId}/outbound-webhook`
  const replay = (json: object, key = newKey()) =>
    send({ method: "POST", path: `${path}/replays`, token, key, json: { since: longAgo, status: "all", ...json } })
  const get = (id: string) => send({ path: `${path}/replays/${id}`, token })
  return {
    replay,
    get,
    test: send({ method: "POST", path: `${path}/test`, token }),
    /** Starts a replay with success, and reads it. */
    started: (json: object) =>
      Effect.flatMap(replay(json), (answer) => Effect.map(get(unversionedReceiptOf(answer, 201).resourceId), replayOf))
  }
}

layerOf({}, "api")("a replay", (it) => {
  it.effect("has the types to which the webhook subscribes, and ends now at the latest", function* () {
    const server = yield* TestServer
    const shop = yield* open(server)
    yield* shop.subscribe("shop", "http://127.0.0.1:9/", [updated, created])
    const { started } = operationsOf(server, shop)
    const before = Date.now()
    const all = yield* started({ until: "2099-01-01T00:00:00Z" })
    assert.deepStrictEqual(all.eventTypes.toSorted(), [created, updated])
    assert.isAtLeast(Date.parse(all.until), before - 10_000)
    assert.isAtMost(Date.parse(all.until), Date.now() + 10_000)
    assert.deepInclude(all, { state: "running", made: 0, finishedAt: null })
    const some = yield* started({ until: "2026-01-02T00:00:00Z", eventTypes: [stageChanged, created] })
    assert.deepInclude(some, { eventTypes: [created], until: "2026-01-02T00:00:00.000Z" })
  })

  it.effect("is refused for a period that is empty, and leaves its key free", function* () {
    const server = yield* TestServer
    const shop = yield* open(server)
    yield* shop.subscribe("shop", "http://127.0.0.1:9/")
    const { replay } = operationsOf(server, shop)
    const key = newKey()
    for (const period of [{ since: "2099-01-01T00:00:00Z" }, { until: longAgo }, { until: "2025-01-01T00:00:00Z" }]) {
      const { errors } = problemOf(yield* replay(period, key), 400, "validation_failed")
      assert.deepStrictEqual(errors, { "body/since": ["must be before `until`, and not in the future"] })
    }
    unversionedReceiptOf(yield* replay({}, key), 201)
  })

  it.effect("requires an enabled webhook, and is read by its installation alone", function* () {
    const server = yield* TestServer
    const shop = yield* open(server, ["shop", "till"])
    const { get, replay, started } = operationsOf(server, shop)
    const conflict = (answer: Answer) => problemOf(answer, 409, "webhook_state_conflict").detail
    assert.match(String(conflict(yield* replay({}))), /has no webhook/)
    yield* shop.subscribe("shop", "http://127.0.0.1:9/")
    const { id } = yield* started({})
    yield* callsOf(server, shop, "shop").disable
    const key = newKey()
    assert.match(String(conflict(yield* replay({}, key))), /is disabled/)
    yield* shop.configure("shop", "http://127.0.0.1:9/", 1)
    assert.isFalse(unversionedReceiptOf(yield* replay({}, key), 201).replayed)

    const till = operationsOf(server, shop, "till")
    problemOf(yield* till.get(id), 404, "replay_not_found")
    problemOf(yield* get("rpl_none"), 404, "replay_not_found")
    problemOf(yield* operationsOf(server, shop, "none").get(id), 404, "installation_not_found")
  })
})

layerOf({ WEBHOOK_TIMEOUT: "500ms" })("a test event of a caller", (it) => {
  it.effect("is signed, sent to a disabled webhook too, and stored nowhere", function* () {
    const server = yield* TestServer
    const shop = yield* openShop(
      server,
      inTurn(ok, status(503), () => {}, status(204))
    )
    const { test } = operationsOf(server, shop)
    assert.deepInclude(testOf(yield* test), { statusCode: 200, errorCode: null })
    const [hit = assert.fail("nothing came")] = shop.to.hits
    assert.isTrue(verifies(shop.secret, hit))
    assert.match(String(hit.headers["webhook-id"]), /^tst_[0-9a-f]{32}$/)
    assert.deepInclude(bodyOf(hit), { type: "webhook.test.v1", installationId: "shop", data: {} })
    assert.deepInclude(testOf(yield* test), { statusCode: 503, errorCode: null })
    const timedOut = testOf(yield* test)
    assert.deepInclude(timedOut, { statusCode: null, errorCode: "timeout" })
    assert.isAtLeast(timedOut.durationMs, 400)
    yield* callsOf(server, shop, "shop").disable
    assert.deepInclude(testOf(yield* test), { statusCode: 204, errorCode: null })
    for (const table of ["events", "deliveries", "audit_entries"]) {
      const rows = yield* server.sql`SELECT FROM ${server.sql(table)} WHERE project_id = ${shop.projectId}`
      assert.lengthOf(rows, 0, table)
    }
  })

  it.effect("requires a webhook", function* () {
    const server = yield* TestServer
    const shop = yield* open(server)
    problemOf(yield* operationsOf(server, shop).test, 409, "webhook_state_conflict")
    problemOf(yield* operationsOf(server, shop, "none").test, 404, "installation_not_found")
  })

  it.effect("ends the pause of an endpoint if it is answered with 2xx, and sends what is overdue", function* () {
    const server = yield* TestServer
    const shop = yield* open(server)
    const to = yield* receiver(inTurn(status(500), ok, ok))
    yield* shop.subscribe("shop", to.url)
    yield* shop.setHealth("failures = 12, failed_probes = 2, parked_until = now() + interval '1 hour'")
    yield* shop.created()
    const { test } = operationsOf(server, shop)
    assert.deepInclude(testOf(yield* test), { statusCode: 500 })
    assert.isNotNull((yield* shop.health()).parkedUntil)
    assert.deepInclude(testOf(yield* test), { statusCode: 200 })
    yield* until(() => to.hits.length === 3)
    yield* shop.finished
    assert.deepInclude(yield* shop.health(), { parkedUntil: null, failures: 0, failedProbes: 0 })
  })
})

layerOf({ WEBHOOK_TIMEOUT: "15s" }, "api")("a test event of a caller", (it) => {
  it.effect("ends the pause also if its answer takes longer than a request may wait for the database", function* () {
    const server = yield* TestServer
    const shop = yield* openShop(server, slowly(Duration.toMillis(requestTimeout) + 100))
    yield* shop.setHealth("failures = 12, failed_probes = 2, parked_until = now() + interval '1 hour'")
    // Longer than a time limit of 0 ms, which the statement could meet otherwise.
    yield* slowDown(server.sql, "endpoint_health")
    assert.deepInclude(testOf(yield* operationsOf(server, shop).test), { statusCode: 200 })
    assert.isNull((yield* shop.health()).parkedUntil)
  })
})
