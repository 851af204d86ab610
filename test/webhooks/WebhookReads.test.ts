/** Webhooks and deliveries as callers see them, compared with what is stored (contract §10). */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { problemOf } from "../support/ContractAnswers.ts"
import { deliveryOf, deliveryPageOf, webhookOf } from "../support/IntegrationAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { untilRows } from "../support/Waiting.ts"
import { inTurn, layerOf, ok, open, receiver, status } from "./delivery/Deliveries.support.ts"

const base = "/api/v1/developer/integrations/shop/outbound-webhook"

/** Opens a project; returns its calls, and reads of its webhook and deliveries. */
const openReads = Effect.fnUntraced(function* () {
  const server = yield* TestServer
  const project = yield* open(server, ["shop", "bare"])
  const get = (path: string) => server.send({ path, token: project.token })
  return {
    ...project,
    get,
    webhookRead: Effect.map(get(base), webhookOf),
    list: (query = "") => Effect.map(get(`${base}/deliveries${query}`), (answer) => deliveryPageOf(answer).items),
    show: (id: string) => Effect.map(get(`${base}/deliveries/${id}`), deliveryOf)
  }
})

const soon = "now() + interval '1 hour'"
const later = "now() + interval '2 hours'"

/** The rows of an endpoint by what they show: assignments, and when the pending delivery is sent. */
const endpoints: ReadonlyArray<
  readonly [name: string, health: string, state: string, next: "now" | "soon" | "later" | null]
> = [
  ["unused", "failures = 0", "unused", "now"],
  ["healthy", "last_success_at = now()", "healthy", "now"],
  ["failing", "failures = 2, strikes = 2, failing_since = now()", "failing", "now"],
  ["parked", `failures = 10, strikes = 10, parked_until = ${soon}`, "parked", "soon"],
  ["parked, with its probe due", "failures = 10, strikes = 10, parked_until = now() - interval '1 s'", "parked", "now"],
  ["resting", `failures = 1, strikes = 1, resting_until = ${later}`, "resting", "later"],
  ["parked and resting", `failures = 10, parked_until = ${soon}, resting_until = ${later}`, "parked", "later"],
  ["past its rest", "failures = 1, strikes = 1, resting_until = now() - interval '1 s'", "failing", "now"],
  ["saturated", "failures = 3, strikes = 3, saturated = true, in_flight = 1, worker_id = 1", "failing", "now"],
  [
    "forgotten by a configure",
    `last_failure = '{"at":"2026-11-20T10:00:00.000Z","statusCode":500,"errorCode":null}'`,
    "healthy",
    "now"
  ],
  ["disabled", `failures = 10, strikes = 10, parked_until = ${soon}`, "parked", null]
]

layerOf({}, "api")("a webhook that is read", (it) => {
  it.effect("shows the state of its endpoint, and the earliest time at which anything is sent", function* () {
    const { created, list, projectId, show, sql, subscribe, webhookRead } = yield* openReads()
    yield* subscribe("shop", "http://127.0.0.1:9/")
    assert.deepInclude((yield* webhookRead).health, { state: "unused", pending: 0, nextAttemptAt: null })
    yield* created()
    const [{ id } = assert.fail("no delivery")] = yield* list()
    for (const [name, health, state, next] of endpoints) {
      yield* Effect.orDie(sql`
        UPDATE endpoint_health SET failures = 0, strikes = 0, failing_since = NULL, last_success_at = NULL,
          last_failure = NULL, parked_until = NULL, resting_until = NULL, saturated = false, in_flight = 0,
          worker_id = NULL
        WHERE project_id = ${projectId}`)
      yield* Effect.orDie(sql`UPDATE endpoint_health SET ${sql.literal(health)} WHERE project_id = ${projectId}`)
      const reason = name === "disabled" ? "operator" : null
      yield* Effect.orDie(sql`
        UPDATE webhooks SET enabled = ${reason === null}, disabled_reason = ${reason} WHERE project_id = ${projectId}`)
      const before = Date.now()
      const webhook = yield* webhookRead
      assert.deepStrictEqual(
        [webhook.health.state, webhook.health.pending, webhook.enabled],
        [state, 1, reason === null],
        name
      )
      const hours = { now: 0, soon: 1, later: 2 }
      const [listed] = yield* list("?status=pending")
      for (const nextAttemptAt of [
        webhook.health.nextAttemptAt,
        listed?.nextAttemptAt ?? null,
        (yield* show(id)).nextAttemptAt
      ]) {
        if (next === null) assert.isNull(nextAttemptAt, name)
        // The clock of the database is that of the machine.
        else
          assert.isTrue(Math.abs(Date.parse(String(nextAttemptAt)) - before - hours[next] * 3_600_000) < 30_000, name)
      }
    }
  })

  it.effect("counts pending deliveries to 10,000, and lists the secrets that sign", function* () {
    const { created, get, projectId, rotate, sql, subscribe, webhookRead } = yield* openReads()
    problemOf(yield* get(base), 404, "webhook_not_found")
    yield* subscribe("shop", "http://127.0.0.1:9/")
    yield* rotate("shop", 1)
    yield* created()
    yield* Effect.orDie(sql`
      INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
      SELECT project_id, id || n, installation_id, event_id, available_at, created_at
      FROM deliveries, generate_series(1, 10050) n WHERE project_id = ${projectId}`)
    const { health, secrets, version } = yield* webhookRead
    assert.deepStrictEqual([health.pending, version], [10_000, 2])
    const [current, former] = secrets
    assert.lengthOf(secrets, 2)
    assert.isNull(current?.signsUntil)
    assert.isAbove(Date.parse(String(former?.signsUntil)), Date.now() + 23 * 3_600_000)
  })
})

layerOf({ WEBHOOK_RETRY_SCHEDULE: "50ms" })("a delivery to an allowed network", (it) => {
  it.effect("reaches no port of the service, and keeps no answer", function* () {
    const server = yield* TestServer
    const to = yield* receiver(status(500))
    for (const [url, lastStatusCode, lastErrorCode] of [
      [to.url, 500, null],
      [server.url, null, "address_refused"],
      [`http://127.0.0.1:${new URL(server.databaseUrl).port}/`, null, "address_refused"]
    ] as const) {
      const { created, deliveries, list, show, subscribe } = yield* openReads()
      yield* subscribe("shop", url)
      yield* created()
      yield* untilRows(deliveries(), (rows) => rows.some(({ status }) => status === "dead"))
      const [dead = assert.fail()] = yield* list()
      assert.deepInclude(dead, { lastStatusCode, lastErrorCode })
      for (const { responseBody } of (yield* show(dead.id)).attemptLog) assert.isNull(responseBody)
    }
  })
})

layerOf({ WEBHOOK_RETRY_SCHEDULE: "50ms", WEBHOOK_KEEP_ALLOWED_ANSWERS: "true" })("a delivery that is read", (it) => {
  it.effect("shows its attempts and its end, in the list of its state and its type alone", function* () {
    const to = yield* receiver(inTurn(status(500), ok, status(503), status(404)))
    const { created, deliveries, get, list, show, subscribe, webhookRead } = yield* openReads()
    yield* subscribe("shop", to.url)
    const deal = yield* created()
    yield* untilRows(deliveries(), (rows) => rows.every(({ status }) => status === "delivered"))
    yield* created()
    yield* untilRows(deliveries(), (rows) => rows.length === 2 && rows.some(({ status }) => status === "dead"))

    const [dead, delivered] = yield* list()
    if (dead === undefined || delivered === undefined) return assert.fail("two deliveries are missing")
    assert.deepInclude(dead, { status: "dead", attempts: 2, lastStatusCode: 404, lastErrorCode: null })
    assert.deepInclude(delivered, { status: "delivered", attempts: 2, lastStatusCode: 200, replayOf: null })
    assert.deepStrictEqual(yield* list("?status=dead"), [dead])
    assert.deepStrictEqual(yield* list("?status=delivered"), [delivered])
    assert.deepStrictEqual(yield* list("?status=pending"), [])
    assert.deepStrictEqual(yield* list("?eventType=crm.deal.created.v1"), [dead, delivered])
    assert.deepStrictEqual(yield* list("?eventType=crm.deal.created.v1&status=dead"), [dead])
    assert.deepStrictEqual(yield* list("?eventType=crm.task.created.v1"), [])

    const { attemptLog, event, ...shown } = yield* show(delivered.id)
    assert.deepStrictEqual(shown, delivered)
    assert.deepInclude(event, { id: delivered.eventId, type: "crm.deal.created.v1", data: { deal } })
    assert.deepStrictEqual(
      attemptLog.map(({ endpointUrl, responseBody, statusCode }) => [statusCode, responseBody, endpointUrl]),
      [
        [500, "ok", to.url],
        [200, null, to.url]
      ]
    )
    const { health } = yield* webhookRead
    assert.deepInclude(health, { state: "failing", failuresInARow: 2, pending: 0, nextAttemptAt: null })
    for (const time of [health.failingSince, health.lastSuccessAt]) assert.isString(time)
    const at = (yield* show(dead.id)).attemptLog.at(-1)?.finishedAt ?? ""
    assert.deepStrictEqual(health.lastFailure, { at, statusCode: 404, errorCode: null })

    const elsewhere = `/api/v1/developer/integrations/bare/outbound-webhook/deliveries`
    problemOf(yield* get(`${elsewhere}/${dead.id}`), 404, "delivery_not_found")
    assert.deepStrictEqual(deliveryPageOf(yield* get(elsewhere)).items, [])
  })
})
