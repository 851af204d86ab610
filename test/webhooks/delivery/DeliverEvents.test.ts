/** Delivery of events, from the change to the receiver (contract §10). */
import { assert } from "@effect/vitest"
import { Effect, Layer, Redacted, Schema } from "effect"
import { PgClient } from "@effect/sql-pg"
import manifest from "../../../package.json" with { type: "json" }
import { ProjectId } from "../../../src/api/schema/Ids.ts"
import { eventBody, eventTypes } from "../../../src/api/integrations/Events.ts"
import { completeTask, createTask } from "../../../src/crm/Tasks.ts"
import { Notifier } from "../../../src/outbox/Outbox.ts"
import { receiptOf } from "../../support/ContractAnswers.ts"
import { dealPath, path } from "../../contract/Deals.support.ts"
import { newKey } from "../../contract/Requests.ts"
import { TestServer } from "../../support/TestServer.ts"
import {
  type Answering,
  bodyOf,
  hang,
  type Hit,
  layerOf,
  ok,
  open,
  openShop,
  receiver,
  status,
  verifies
} from "./Deliveries.support.ts"
import { until, untilRows } from "../../support/Waiting.ts"

/** Exactly the members of the OpenAPI document. */
const decodeEvent = Schema.decodeUnknownEffect(Schema.Union(eventTypes.map(eventBody)), {
  onExcessProperty: "error",
  errors: "all"
})

/** Returns what the commands on tasks need, as in an operator's process. */
const operatorOf = (url: string) =>
  Notifier.layerInline.pipe(Layer.provideMerge(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })))

const typesOf = (hits: ReadonlyArray<Hit>) => hits.map((hit) => String(bodyOf(hit)["type"])).sort()

layerOf()("an event", (it) => {
  it.effect("reaches every subscribed webhook, complete, signed and in the trace of its cause", function* () {
    const server = yield* TestServer
    const [all, deals] = [yield* receiver(), yield* receiver()]
    const project = yield* open(server, ["all", "deals", "mute"])
    const secrets = {
      all: yield* project.subscribe("all", all.url),
      deals: yield* project.subscribe("deals", deals.url, ["crm.deal.created.v1", "crm.deal.stage_changed.v1"])
    }
    const { projectId, token } = project
    const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
    const headers = { traceparent: `00-${traceId}-00f067aa0ba902b7-01` }
    yield* server.send({ method: "POST", path, token, key: newKey(), headers, json: { title: "Ärger €" } })
    const { items } = yield* project.page()
    const deal = items[0] ?? assert.fail()
    const json = { stageId: "agreed", title: "B" }
    yield* server.send({ method: "PATCH", path: dealPath(deal.id), token, key: newKey(), headers, json })
    const clients = "/api/v1/developer/crm/clients"
    const client = yield* server.send({
      method: "POST",
      path: clients,
      token,
      key: newKey(),
      headers,
      json: { displayName: "Ä" }
    })
    const clientPath = `${clients}/${receiptOf(client, 201).resourceId}`
    yield* server.send({ method: "PATCH", path: clientPath, token, key: newKey(), headers, json: { lastName: "B" } })
    yield* server.send({ method: "DELETE", path: clientPath, token, key: newKey(), headers })
    yield* Effect.gen(function* () {
      const task = { title: "Call", dealId: null, clientId: null, dueAt: null }
      yield* completeTask(ProjectId.make(projectId), yield* createTask(ProjectId.make(projectId), task))
    }).pipe(Effect.provide(operatorOf(server.databaseUrl)))
    yield* until(() => all.hits.length === eventTypes.length && deals.hits.length === 2)
    yield* project.finished

    assert.deepStrictEqual(typesOf(deals.hits), ["crm.deal.created.v1", "crm.deal.stage_changed.v1"])
    assert.deepStrictEqual(typesOf(all.hits), [...eventTypes].sort())
    const rows = yield* project.deliveries()
    for (const [installationId, { hits }] of [["all", all] as const, ["deals", deals] as const]) {
      for (const hit of hits) {
        const { data: _, id, timestamp, type: __, ...rest } = bodyOf(hit)
        assert.deepStrictEqual(Object.keys(bodyOf(hit)), [
          "id",
          "type",
          "timestamp",
          "projectId",
          "installationId",
          "data"
        ])
        assert.deepStrictEqual(rest, { projectId, installationId })
        assert.match(String(id), /^evt_[0-9a-f]{32}$/)
        assert.match(String(timestamp), /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
        assert.isAtMost(Math.abs(Date.parse(String(timestamp)) - hit.at), 20_000)
        const { type: known } = yield* decodeEvent(bodyOf(hit))

        assert.isTrue(verifies(secrets[installationId], hit))
        assert.isFalse(verifies(secrets[installationId === "all" ? "deals" : "all"], hit))
        assert.match(String(hit.headers["webhook-signature"]), /^v1,[A-Za-z0-9+/]{43}=$/)
        const row = rows.find((row) => row.id === hit.headers["webhook-id"])
        assert.deepInclude(row, { installation: installationId, type: known, status: "delivered", attempts: 1 })
        assert.isAtMost(Math.abs(Number(hit.headers["webhook-timestamp"]) * 1_000 - hit.at), 20_000)
        assert.strictEqual(hit.headers["content-type"], "application/json")
        assert.strictEqual(hit.headers["user-agent"], `developer-api/${manifest.version}`)
        const traceparent = String(hit.headers["traceparent"])
        assert.match(traceparent, /^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$/)
        assert.strictEqual(traceparent.slice(3, 35) === traceId, !known.startsWith("crm.task."), traceparent)
      }
    }
    const idsOf = (hits: ReadonlyArray<Hit>, type: string) =>
      hits.filter((hit) => bodyOf(hit)["type"] === type).map((hit) => bodyOf(hit)["id"])
    for (const type of typesOf(deals.hits)) assert.deepStrictEqual(idsOf(all.hits, type), idsOf(deals.hits, type))
    assert.strictEqual(new Set([...all.hits, ...deals.hits].map((hit) => bodyOf(hit)["id"])).size, eventTypes.length)

    const moved = all.hits.map(bodyOf).find(({ type }) => type === "crm.deal.stage_changed.v1")
    assert.deepNestedInclude(moved?.["data"], { previousStageId: "new", "deal.stageId": "agreed", "deal.title": "B" })
    const made = all.hits.map(bodyOf).find(({ type }) => type === "crm.deal.created.v1")
    assert.deepStrictEqual(made?.["data"], { deal })
    for (const installation of ["all", "deals"]) {
      assert.strictEqual((yield* project.health(installation)).inFlight, 0)
    }
  })

  it.effect("is signed by the three newest secrets, and by the new one alone once the overlap is over", function* () {
    const project = yield* openShop(yield* TestServer)
    const secrets = [project.secret]
    for (let version = 1; version <= 5; version++) secrets.push(yield* project.rotate("shop", version))
    assert.strictEqual(new Set(secrets).size, 6)
    yield* project.created()
    yield* until(() => project.to.hits.length === 1)
    // The overlap is over.
    yield* Effect.orDie(project.sql`
      UPDATE webhook_secrets SET retires_at = now()
      WHERE project_id = ${project.projectId} AND retires_at <> 'infinity'`)
    yield* project.created()
    yield* until(() => project.to.hits.length === 2)
    const [within = assert.fail(), after = assert.fail()] = project.to.hits
    const signaturesOf = ({ headers }: Hit) => String(headers["webhook-signature"]).split(" ")
    assert.deepStrictEqual([signaturesOf(within).length, signaturesOf(after).length], [3, 1])
    const signing = (hit: Hit) => secrets.map((secret) => verifies(secret, hit))
    assert.deepStrictEqual(signing(within), [false, false, false, true, true, true])
    assert.deepStrictEqual(signing(after), [false, false, false, false, false, true])
    // The new secret's signature comes first.
    const [newest = ""] = signaturesOf(within)
    const newestAlone = { ...within, headers: { ...within.headers, "webhook-signature": newest } }
    assert.isTrue(verifies(secrets.at(-1) ?? "", newestAlone))
  })
})

layerOf({ WEBHOOK_RETRY_SCHEDULE: "1s,1s" })("a retry of a delivery", (it) => {
  it.effect("is the same delivery with a new signature at the current URL", function* () {
    const project = yield* open(yield* TestServer)
    const after = yield* receiver(ok)
    const before = yield* receiver(hang)
    const secret = yield* project.subscribe("shop", before.url)
    yield* project.created()
    yield* until(() => before.hits.length === 1)
    assert.strictEqual((yield* project.configure("shop", after.url, 1)).status, 200)
    for (const [n, hit] of before.hits.entries()) status(500)(hit, n)
    yield* project.finished
    assert.strictEqual(before.hits.length, 1)
    const [one = assert.fail(), two = assert.fail()] = [before.hits[0], after.hits[0]]
    assert.strictEqual(one.body, two.body)
    assert.strictEqual(one.headers["webhook-id"], two.headers["webhook-id"])
    assert.isAbove(Number(two.headers["webhook-timestamp"]), Number(one.headers["webhook-timestamp"]) - 1)
    assert.isTrue(verifies(secret, one) && verifies(secret, two))
    const [row] = yield* project.deliveries()
    assert.deepInclude(row, { status: "delivered", attempts: 2, retries: 1 })
    assert.strictEqual((yield* project.health()).inFlight, 0)
  })
})

/** Deliveries that are claimed ahead, in all and answered before. */
const inAll = 80
const answeredFirst = 20
/** Number of deliveries that are sent to an endpoint at a time. */
const width = 4

/** Opens a webhook whose endpoint answers some deliveries and holds the next answers; the others are claimed ahead. */
const openAhead = Effect.gen(function* () {
  const held: Array<Hit> = []
  let holding = true
  const answer: Answering = (hit, n) => void (holding && n >= answeredFirst ? held.push(hit) : ok(hit, n))
  const project = yield* openShop(yield* TestServer, answer)
  const rest = (until: "infinity" | "-infinity") =>
    Effect.orDie(project.sql`
      UPDATE endpoint_health SET resting_until = ${until}::timestamptz WHERE project_id = ${project.projectId}`)
  yield* rest("infinity")
  for (let n = 1; n < inAll; n++) yield* project.created()
  yield* rest("-infinity")
  yield* project.created()
  yield* until(() => held.length === width)
  // Otherwise nothing was claimed ahead.
  assert.isAbove((yield* project.health()).inFlight, width)
  const leases = Effect.orDie(project.sql<{ readonly end: Date }>`
    SELECT leased_until AS end FROM deliveries WHERE project_id = ${project.projectId} AND status = 'delivering'`)
  const before = Math.max(...(yield* leases).map(({ end }) => end.getTime()))
  return {
    ...project,
    /** Waits until all deliveries that were claimed ahead are returned, then sends the held answers. */
    release: untilRows(leases, (rows) => rows.filter(({ end }) => end.getTime() <= before).length === width).pipe(
      Effect.andThen(
        Effect.sync(() => {
          holding = false
          for (const [n, hit] of held.entries()) ok(hit, n)
        })
      ),
      Effect.andThen(project.finished)
    )
  }
})

const idsOf = (hits: ReadonlyArray<Hit>) => hits.map(({ headers }) => String(headers["webhook-id"]))

layerOf({ WEBHOOK_TIMEOUT: "60s" })("a delivery that is claimed ahead", (it) => {
  it.effect("goes to the webhook's current URL at its first attempt", function* () {
    const { configure, deliveries, release, to } = yield* openAhead
    const next = yield* receiver()
    assert.strictEqual((yield* configure("shop", next.url, 1)).status, 200)
    yield* release
    assert.strictEqual(to.hits.length, answeredFirst + width)
    assert.strictEqual(new Set(idsOf([...to.hits, ...next.hits])).size, inAll)
    assert.strictEqual(next.hits.length, inAll - answeredFirst - width)
    for (const { attempts, log, status } of yield* deliveries()) {
      assert.deepStrictEqual([status, attempts, log.length], ["delivered", 1, 1])
    }
  })

  it.effect("is signed with the current secret", function* () {
    const { release, rotate, secret, to } = yield* openAhead
    const rotated = yield* rotate("shop", 1)
    yield* release
    assert.strictEqual(to.hits.length, inAll)
    for (const [n, hit] of to.hits.entries()) {
      assert.deepStrictEqual([verifies(rotated, hit), verifies(secret, hit)], [n >= answeredFirst + width, true])
    }
  })
})
