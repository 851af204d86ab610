/** Failed deliveries: which are retried and when, and which are dead-lettered (contract §10). */
import { assert, layer } from "../../support/Vitest.ts"
import { Effect } from "effect"
import { problemOf } from "../../support/ContractAnswers.ts"
import { TestServer } from "../../support/TestServer.ts"
import {
  type Answering,
  type DeliveryRow,
  hang,
  open,
  receiver,
  layerOf,
  settings,
  status
} from "./Deliveries.support.ts"
import { until, untilRows } from "../../support/Waiting.ts"

const created = ["crm.deal.created.v1"]

/** Returns the result of each attempt: its status code, or its error code. */
const resultsOf = (row: DeliveryRow | undefined) => row?.log.map(({ errorCode, statusCode }) => statusCode ?? errorCode)

const times = (row: DeliveryRow | undefined) =>
  (row?.log ?? []).map(({ finishedAt, startedAt }) => [Date.parse(startedAt), Date.parse(finishedAt)] as const)

const api = TestServer.layer({ ...settings, WEBHOOK_TIMEOUT: "1s", WEBHOOK_RETRY_SCHEDULE: "50ms,100ms" })

layer(api, { excludeTestServices: true })("a delivery", (it) => {
  const elsewhere: Array<string> = []
  const failures: ReadonlyArray<readonly [string, Answering, string | number]> = [
    ["500", status(500), 500],
    ["404", status(404), 404],
    ["400", status(400), 400],
    ["a redirect", (hit, n) => status(302, { location: elsewhere[0] ?? "" })(hit, n), 302],
    ["silence", hang, "timeout"],
    [
      "an answer that does not end",
      ({ response }) => void response.writeHead(200, { "content-length": "100" }).write("x"),
      "timeout"
    ],
    ["a reset", ({ response }) => void response.socket?.resetAndDestroy(), "connection_lost"],
    [
      "a body that breaks off",
      ({ response }) => {
        response.writeHead(200, { "content-length": "100" })
        response.write("x", () => response.socket?.end())
      },
      "connection_lost"
    ]
  ]

  it.effect("is retried on the schedule after any failure, then dead, with each attempt in the log", function* () {
    const other = yield* receiver()
    elsewhere[0] = other.url
    const receivers = yield* Effect.forEach(failures, ([, answer]) => receiver(answer))
    const names = failures.map((_, n) => `shop${n}`)
    const project = yield* open(yield* TestServer, names)
    for (const [n, { url }] of receivers.entries()) yield* project.subscribe(names[n] ?? "", url, created)
    yield* project.created()
    yield* project.finished

    const rows = yield* project.deliveries()
    for (const [n, [name, , code]] of failures.entries()) {
      const row = rows.find(({ installation }) => installation === names[n])
      assert.deepInclude(row, { status: "dead", attempts: 3, retries: 2, availableAt: null }, name)
      assert.deepStrictEqual(resultsOf(row), [code, code, code], name)
      assert.deepStrictEqual(
        row?.log.map(({ number }) => number),
        [1, 2, 3]
      )
      const [one, two, three] = times(row)
      const gaps = [(two?.[0] ?? 0) - (one?.[1] ?? 0), (three?.[0] ?? 0) - (two?.[1] ?? 0)]
      assert.isAtLeast(gaps[0] ?? 0, 40, name)
      assert.isAtLeast(gaps[1] ?? 0, 80, name)
      assert.isAtMost(Math.max(...gaps), 5_000, name)
      for (const { durationMs, finishedAt, startedAt } of row?.log ?? []) {
        assert.strictEqual(durationMs, Date.parse(finishedAt) - Date.parse(startedAt))
        if (code === "timeout") assert.isAtLeast(durationMs ?? 0, 995)
      }
      const hits = receivers[n]?.hits ?? []
      assert.strictEqual(hits.length, 3, name)
      assert.strictEqual(new Set(hits.map(({ headers }) => headers["webhook-id"])).size, 1)
      assert.deepInclude(yield* project.health(names[n] ?? ""), { inFlight: 0, failures: 3 })
    }
    assert.strictEqual(other.hits.length, 0)
  })
})

layerOf({ WEBHOOK_RETRY_SCHEDULE: "60s" })("an endpoint that is gone (410)", (it) => {
  it.effect("disables its webhook and dead-letters its open deliveries until it is configured again", function* () {
    let code = 500
    const shop = yield* receiver((hit, n) => status(code)(hit, n))
    const other = yield* receiver()
    const project = yield* open(yield* TestServer, ["shop", "other"])
    yield* project.subscribe("shop", shop.url, created)
    yield* project.subscribe("other", other.url, created)
    // A delivery that waits for its retry.
    yield* project.created()
    yield* untilRows(project.deliveries("shop"), ([row]) => row?.log.length === 1)
    code = 410
    yield* project.created()
    yield* untilRows(project.deliveries("shop"), (rows) => rows.every(({ status }) => status === "dead"))
    assert.deepStrictEqual(yield* project.webhook(), { enabled: false, version: 2 })
    const [waiting, gone] = yield* project.deliveries("shop")
    assert.deepInclude(waiting, { attempts: 1, status: "dead" })
    assert.deepStrictEqual([gone?.attempts, resultsOf(gone)], [1, [410]])
    assert.strictEqual((yield* project.health()).inFlight, 0)
    problemOf(yield* project.retry("shop", gone?.id ?? ""), 409, "webhook_state_conflict")

    yield* project.created()
    yield* until(() => other.hits.length === 3)
    assert.strictEqual((yield* project.deliveries("shop")).length, 2)
    assert.strictEqual(shop.hits.length, 2)

    code = 200
    problemOf(yield* project.configure("shop", shop.url, 1, created), 409, "version_conflict")
    const again = yield* project.configure("shop", shop.url, 2, created)
    assert.strictEqual(again.status, 200, again.text)
    assert.deepStrictEqual(yield* project.webhook(), { enabled: true, version: 3 })
    yield* project.created()
    yield* until(() => shop.hits.length === 3)
    assert.strictEqual((yield* project.retry("shop", gone?.id ?? "")).status, 200)
    yield* until(() => shop.hits.length === 4)
    yield* project.finished
    const rows = yield* project.deliveries("shop")
    assert.deepStrictEqual(
      rows.map(({ attempts, status }) => [status, attempts]),
      [
        ["dead", 1],
        ["delivered", 2],
        ["delivered", 1]
      ]
    )
    assert.deepStrictEqual([(yield* project.health()).inFlight, (yield* project.health("other")).inFlight], [0, 0])
  })

  it.effect("disables its webhook once for many answers", function* () {
    const shop = yield* receiver(status(410))
    const project = yield* open(yield* TestServer)
    yield* project.subscribe("shop", shop.url, created)
    yield* Effect.forEach(Array.from({ length: 10 }), () => project.created(), { concurrency: 10 })
    yield* project.finished
    assert.deepStrictEqual(yield* project.webhook(), { enabled: false, version: 2 })
    for (const { status } of yield* project.deliveries()) assert.strictEqual(status, "dead")
    assert.strictEqual((yield* project.health()).inFlight, 0)
  })

  it.effect("does not disable a webhook that has been configured with another URL meanwhile", function* () {
    const [next, old] = [yield* receiver(), yield* receiver(hang)]
    const project = yield* open(yield* TestServer)
    yield* project.subscribe("shop", old.url, created)
    yield* project.created()
    yield* until(() => old.hits.length === 1)
    assert.strictEqual((yield* project.configure("shop", next.url, 1, created)).status, 200)
    old.hits[0]?.response.writeHead(410).end()
    yield* untilRows(project.deliveries(), ([row]) => row?.log.length === 1)
    assert.deepStrictEqual(yield* project.webhook(), { enabled: true, version: 2 })
    yield* project.created()
    yield* until(() => next.hits.length === 1)
  })
})
