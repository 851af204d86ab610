/** Headers that a caller adds to the deliveries of a webhook (contract §10). */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { deliveryHeaders } from "../../src/api/integrations/Webhooks.ts"
import { bodyOf, inTurn, layerOf, ok, open, receiver, verifies } from "../webhooks/delivery/Deliveries.support.ts"
import { problemOf, secretOf } from "../support/ContractAnswers.ts"
import { deliveryOf, deliveryPageOf, webhookOf } from "../support/IntegrationAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { until } from "../support/Waiting.ts"
import { newKey } from "./Requests.ts"
import { callsOf, created } from "./Webhooks.support.ts"

const base = "/api/v1/developer/integrations/shop/outbound-webhook"
const secret = 'Bearer "of\\the receiver" 6f1c2a'

/** Opens a project whose webhook `shop` has headers; returns commands on it. */
const openWith = Effect.fnUntraced(function* (headers: object, to: { readonly url: string }) {
  const server = yield* TestServer
  const project = yield* open(server)
  const get = (path: string) => server.send({ path: `${base}${path}`, token: project.token })
  const webhook = callsOf(server, project, "shop")
  const configure = (change: object, key = newKey()) =>
    webhook.put({ endpointUrl: to.url, eventTypes: [created], ...change }, key)
  const { signingSecret } = secretOf(yield* configure({ headers, expectedVersion: null }))
  return {
    ...project,
    get,
    signingSecret,
    configure,
    /** Configures with success; returns whether this has changed the webhook, and the names of its headers. */
    changes: Effect.fnUntraced(function* (change: object) {
      const { version: expectedVersion } = webhookOf(yield* get(""))
      const { changed } = secretOf(yield* configure({ ...change, expectedVersion }))
      return [changed, webhookOf(yield* get("")).headerNames] as const
    }),
    test: server.send({ method: "POST", path: `${base}/test`, token: project.token })
  }
})

layerOf()("headers of a webhook", (it) => {
  it.effect("are sent with each delivery and test event, beside those of the service", function* () {
    const to = yield* receiver()
    const { created, finished, get, signingSecret, test } = yield* openWith(
      { "X-Shop": "north", authorization: secret },
      to
    )
    yield* created()
    yield* finished
    yield* test
    yield* until(() => to.hits.length === 2)
    for (const hit of to.hits) {
      assert.deepInclude(hit.headers, { "x-shop": "north", authorization: secret })
      for (const name of deliveryHeaders) assert.isString(hit.headers[name], name)
      assert.strictEqual(hit.headers["content-type"], "application/json")
      assert.isTrue(verifies(signingSecret, hit))
    }
    assert.strictEqual(bodyOf(to.hits[1] ?? assert.fail())["type"], "webhook.test.v1")
    assert.deepStrictEqual(webhookOf(yield* get("")).headerNames, ["X-Shop", "authorization"])
  })

  it.effect("stay if they are absent, change nothing if they are the same, and are removed by {}", function* () {
    const to = yield* receiver()
    const { changes, created, finished, projectId, sql } = yield* openWith({ "X-Shop": "north", "x-till": "1" }, to)
    const names = ["X-Shop", "x-till"]
    assert.deepStrictEqual(yield* changes({}), [false, names])
    assert.deepStrictEqual(yield* changes({ headers: { "X-TILL": "1", "x-shop": "north" } }), [false, names])
    // Another URL keeps them, too.
    assert.deepStrictEqual(yield* changes({ endpointUrl: `${to.url}/other` }), [true, names])
    yield* created()
    yield* finished
    assert.deepInclude(to.hits[0], { path: "/hook/other" })
    assert.deepInclude(to.hits[0]?.headers, { "x-shop": "north", "x-till": "1" })
    assert.deepStrictEqual(yield* changes({ headers: { "x-till": "2" } }), [true, ["x-till"]])
    yield* created()
    yield* finished
    assert.strictEqual(to.hits[1]?.headers["x-till"], "2")
    assert.notProperty(to.hits[1]?.headers, "x-shop")
    assert.deepStrictEqual(yield* changes({ headers: {} }), [true, []])
    assert.deepStrictEqual(yield* changes({ headers: {} }), [false, []])
    // Nothing is left that a key has to open.
    assert.deepStrictEqual(yield* Effect.orDie(sql`SELECT headers FROM webhooks WHERE project_id = ${projectId}`), [
      { headers: null }
    ])
    yield* created()
    yield* finished
    assert.notProperty(to.hits[2]?.headers, "x-till")
  })

  it.effect("are compared with those of the moment, however many change them at once", function* () {
    const to = yield* receiver()
    const { configure, get } = yield* openWith({ "x-n": "0" }, to)
    const answers = yield* Effect.forEach(
      Array.from({ length: 12 }, (_, n) => String(n)),
      (n) => configure({ headers: { "x-n": n }, expectedVersion: 1 }),
      { concurrency: "unbounded" }
    )
    const changed = answers.filter(({ status }) => status === 200).map((answer) => secretOf(answer).changed)
    assert.strictEqual(changed.filter(Boolean).length, 1)
    for (const answer of answers.filter(({ status }) => status !== 200)) problemOf(answer, 409, "version_conflict")
    assert.strictEqual(webhookOf(yield* get("")).version, 2)
  })

  it.effect("are refused at their names, all of them at once", function* () {
    const { configure } = yield* openWith({}, { url: "https://shop.example.com/" })
    const refused = [
      ...deliveryHeaders,
      ..."Host|CONNECTION|transfer-encoding|te|expect|Upgrade|keep-alive|content-length|content-encoding".split("|"),
      ..."|with space|colon:|ümlaut|new\nline".split("|"),
      "a".repeat(65)
    ]
    for (const headers of refused.map((name) => ({ "x-good": "1", [name]: "1" }))) {
      const { errors } = problemOf(yield* configure({ headers, expectedVersion: 1 }), 400, "validation_failed")
      const name = Object.keys(headers)[1]?.slice(0, 64)
      assert.deepStrictEqual(Object.keys(errors ?? {}), [`body/headers/${name}`])
    }
    const headers = { host: "a", "x-A": "1", "X-a": "2", "x-b": "", "x-c": "ü", "x-d": "a\n", "x-e": "a".repeat(1_025) }
    const { errors } = problemOf(yield* configure({ headers, expectedVersion: 0 }), 400, "validation_failed")
    assert.sameMembers(
      Object.keys(errors ?? {}),
      ["expectedVersion", ..."host|X-a|x-b|x-c|x-d|x-e".split("|").map((name) => `headers/${name}`)].map(
        (at) => `body/${at}`
      )
    )
    for (const message of Object.values(errors ?? {}).flat()) assert.notInclude(message, "aaa")
  })

  it.effect("take every visible character, 10 names and 1,024 characters", function* () {
    const to = yield* receiver()
    const visible = Array.from({ length: 94 }, (_, n) => String.fromCharCode(33 + n)).join("")
    const headers = {
      ...Object.fromEntries(Array.from({ length: 7 }, (_, n) => [`x-${n}`, `${n} ${visible}`])),
      "!#$%&'*+.^_`|~-": "token",
      __proto__x: "1",
      ["x".repeat(64)]: "v".repeat(1_024)
    }
    const { created, finished } = yield* openWith(headers, to)
    yield* created()
    yield* finished
    for (const [name, value] of Object.entries(headers)) assert.strictEqual(to.hits[0]?.headers[name], value, name)
  })
})

layerOf({ WEBHOOK_KEEP_ALLOWED_ANSWERS: "true" })("the value of a header", (it) => {
  it.effect("is in no table, answer or page, even if the endpoint repeats it", function* () {
    const to = yield* receiver(
      inTurn(
        ({ headers, response }) => void response.writeHead(500).end(JSON.stringify(headers)),
        ({ headers, response }) => void response.writeHead(500).end(`${"x".repeat(1_010)}${headers["authorization"]}`),
        ok
      )
    )
    const { created, finished, get, sql } = yield* openWith({ authorization: secret }, to)
    yield* created()
    yield* finished
    const [{ id } = assert.fail("no delivery")] = deliveryPageOf(yield* get("/deliveries")).items
    const shown = yield* get(`/deliveries/${id}`)
    const bodies = deliveryOf(shown).attemptLog.map(({ responseBody }) => responseBody)
    assert.include(bodies[0], '"authorization":"[redacted]"')
    // The text is cut where the value begins that the limit divides.
    assert.strictEqual(bodies[1], "x".repeat(1_010))
    const tables = yield* Effect.orDie(sql<{ readonly name: string }>`
      SELECT relname AS name FROM pg_class
      WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace`)
    assert.isAbove(tables.length, 20)
    for (const { name } of tables) {
      const [row] = yield* Effect.orDie(sql<{ readonly text: string | null }>`
        SELECT string_agg(t::text, ' ') AS text FROM ${sql(name)} AS t`)
      for (const form of ["6f1c2a", Buffer.from("6f1c2a").toString("hex")])
        assert.notInclude(row?.text ?? "", form, name)
    }
    for (const { text } of [shown, yield* get(""), yield* get("/deliveries")]) assert.notInclude(text, "6f1c2a")
  })
})
