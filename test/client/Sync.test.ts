/** The sync of clients and deals with another system: batches of any number of items, their repeats, and changes (contract §7). */
import { assert, describe, it, layer } from "../support/Vitest.ts"
import { Effect, Stream } from "effect"
import { TestClock } from "effect/testing"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import {
  createClient,
  DeveloperApi,
  followChanges,
  followChangesPromise,
  keepNewest,
  sendBatches,
  sendBatchesPromise
} from "../../src/client.ts"
import { newKey } from "../contract/Requests.ts"
import { TestServer } from "../support/TestServer.ts"

const opened = Effect.gen(function* () {
  const { seed, url } = yield* TestServer
  const { token } = yield* seed()
  const options = { baseUrl: url, token }
  return { api: yield* Effect.provide(DeveloperApi, DeveloperApi.layer(options)), client: createClient(options) }
})

const customers = (count: number, name = "A") =>
  Array.from({ length: count }, (_, index) => ({ externalId: `shop-${index}`, displayName: `${name} ${index}` }))

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a sync", (it) => {
  it.effect(
    "sends any number of items by batches, with Effect and with Promises, and has no second effect",
    function* () {
      const { api, client } = yield* opened
      const key = newKey()
      // The second change of a customer follows the first.
      const all = customers(230)
      const items = [...all.slice(0, 60), { externalId: "shop-7", displayName: "Later" }, ...all.slice(60)]
      const first = yield* Stream.runCollect(sendBatches(api.clients.batchClients, items, { key }))
      assert.deepStrictEqual(
        first.map(({ externalId }) => externalId),
        items.map(({ externalId }) => externalId)
      )
      assert.deepStrictEqual(
        first.map((result) => "created" in result && result.created),
        items.map((_, index) => index !== 60)
      )
      async function* read() {
        yield* items
      }
      const again = yield* Effect.promise(() =>
        Array.fromAsync(sendBatchesPromise(client.clients.batchClients, read(), { key }))
      )
      assert.deepStrictEqual(again, [...first])
      const { body } = yield* api.clients.listClients({ query: { externalId: "shop-7" } })
      assert.deepInclude(body.items[0], { displayName: "Later", version: 2 })
    }
  )

  it.effect("gives the problem of an item as its result, and fails with the problem of a batch", function* () {
    const { api, client } = yield* opened
    const items = [...customers(1), { externalId: "nameless" }]
    const [, nameless] = yield* Stream.runCollect(sendBatches(api.clients.batchClients, items))
    assert.isTrue(nameless !== undefined && "problem" in nameless && nameless.problem._tag === "validation_failed")
    const faulty = [{ externalId: "a", displayName: "" }]
    const failure = yield* Effect.flip(Stream.runCollect(sendBatches(api.clients.batchClients, faulty)))
    assert.strictEqual(failure._tag, "validation_failed")
    const thrown = Array.fromAsync(sendBatchesPromise(client.clients.batchClients, faulty)).catch(
      (error: unknown) => error
    )
    assert.strictEqual(Object(yield* Effect.promise(() => thrown))._tag, "validation_failed")
  })

  it.effect("reads each version of each changed record once, and misses none", function* () {
    const { api, client } = yield* opened
    const since = new Date(Date.now() - 1_000).toISOString()
    yield* Stream.runDrain(sendBatches(api.clients.batchClients, customers(120)))
    const read = (updatedSince: string) => api.clients.listClients.items({ query: { updatedSince, limit: 50 } })
    const seen: Array<string> = []
    yield* followChanges(read, { since, every: "10 millis" }).pipe(
      Stream.tap(({ displayName }) =>
        Effect.suspend(() => {
          seen.push(displayName)
          return seen.length === 120
            ? Stream.runDrain(sendBatches(api.clients.batchClients, customers(3, "B")))
            : Effect.void
        })
      ),
      Stream.takeUntil(() => seen.filter((name) => name.startsWith("B")).length === 3),
      Stream.runDrain
    )
    assert.strictEqual(new Set(seen).size, seen.length)
    assert.includeMembers(
      seen,
      [...customers(120).slice(3), ...customers(3, "B")].map(({ displayName }) => displayName)
    )
    const once = followChangesPromise((updatedSince) => client.clients.listClients.items({ query: { updatedSince } }), {
      since
    })
    assert.lengthOf(yield* Effect.promise(() => Array.fromAsync(once)), 120)
  })
})

describe("batches of a sync", () => {
  it.live("are sent again with their key while the service is not available for some items", function* () {
    const keys: Array<string> = []
    const send = ({
      headers,
      payload
    }: {
      headers: { "idempotency-key": string }
      payload: { items: ReadonlyArray<{ externalId: string }> }
    }) =>
      Effect.sync(() => {
        keys.push(headers["idempotency-key"])
        const results = payload.items.map(({ externalId }) =>
          keys.length === 2 ? { externalId, problem: { code: "service_unavailable" } } : { externalId }
        )
        return { body: { results } }
      })
    const results = yield* Stream.runCollect(sendBatches(send, customers(150), { key: "nightly-1" }))
    assert.isTrue(results.every((result) => !("problem" in result)))
    assert.deepStrictEqual(keys, ["nightly-1-0", "nightly-1-1", "nightly-1-1"])
  })
})

describe("a program that follows changes", () => {
  const start = Date.parse("2026-11-20T10:00:00.000Z")
  /** A record that takes memory, and was changed so many seconds after the start. */
  const changed = (id: string, seconds: number) => ({
    id,
    version: 1,
    updatedAt: new Date(start + seconds * 1_000).toISOString(),
    tags: Array.from({ length: 100 }, (_, index) => `${id} ${index}`)
  })
  const options = { since: new Date(start).toISOString() }

  it.effect("keeps none of the records of a walk, so that their number has no bound", function* () {
    const read: Array<WeakRef<object>> = []
    async function* walk() {
      for (let index = 0; index < 1_000; index++) {
        // All are within the time that the next walk reads again.
        const record = changed(`cli_${index}`, index / 100)
        read.push(new WeakRef(record))
        yield record
      }
      // The last records may still be on their way. A macrotask ends what keeps the others referenced.
      await new Promise((resolve) => setTimeout(resolve))
      collect()
      assert.isBelow(read.filter((record) => record.deref() !== undefined).length, 100)
    }
    yield* Effect.promise(async () => {
      for await (const { version } of followChangesPromise(walk, options)) assert.strictEqual(version, 1)
    })
    assert.lengthOf(read, 1_000)
  })

  it.effect("forgets during a walk what no walk reads again, and nothing that the next one does", function* () {
    const seen: Array<string> = []
    const walks = [
      // The service lists no record again that it has listed in a walk. The last one shows what is still known.
      [changed("a", 0), changed("b", 30), changed("c", 90), changed("d", 150), changed("e", 200), changed("a", 0)],
      [changed("d", 150), changed("e", 200), changed("f", 250)],
      [changed("e", 200), changed("f", 250)]
    ]
    const read = () => Stream.fromIterable(walks.shift() ?? [])
    yield* followChanges(read, { ...options, every: "1 second" }).pipe(
      Stream.runForEach(({ id }) => Effect.sync(() => seen.push(id))),
      Effect.forkChild
    )
    yield* TestClock.adjust("5 seconds")
    assert.deepStrictEqual(seen, ["a", "b", "c", "d", "e", "a", "f"])
  })
})

const collect = () => {
  setFlagsFromString("--expose-gc")
  const run: unknown = runInNewContext("gc")
  if (typeof run === "function") run()
}

describe("a receiver", () => {
  const deal = (id: string, version: number) => ({ data: { deal: { id, version } } })

  it("keeps the newest version of each record, every event of it, and nothing after it is gone", async () => {
    const versions = new Map<string, number>()
    const keep = keepNewest(versions)
    const stored: Array<boolean> = []
    for (const event of [
      deal("a", 2),
      deal("a", 1),
      deal("a", 2),
      deal("b", 1),
      { data: { client: { id: "a", version: 1 } } },
      { data: { client: { id: "a" } } },
      { data: { client: { id: "a", version: 9 } } },
      { data: { task: { id: "a" } } }
    ]) {
      stored.push(await keep(event, () => {}))
    }
    assert.deepStrictEqual(stored, [true, false, true, true, true, true, false, true])
    // Another process goes on with the same versions.
    const copy = new Map<string, number>(JSON.parse(JSON.stringify([...versions])))
    for (const event of [deal("a", 1), { data: { client: { id: "a", version: 9 } } }]) {
      assert.isFalse(await keepNewest(copy)(event, () => {}))
    }
  })

  it("stores the repeated event after a failure, and events of one record one after the other", async () => {
    const keep = keepNewest()
    let failure: unknown
    await keep(deal("a", 1), () => Promise.reject(new Error("away"))).catch((error: unknown) => (failure = error))
    assert.strictEqual(String(failure), "Error: away")
    const stored: Array<number> = []
    const store = (version: number, millis: number) => async () => {
      await new Promise((resolve) => setTimeout(resolve, millis))
      stored.push(version)
    }
    const kept = await Promise.all([
      keep(deal("a", 1), store(1, 20)),
      keep(deal("a", 3), store(3, 10)),
      keep(deal("a", 2), store(2, 0))
    ])
    assert.deepStrictEqual(
      [kept, stored],
      [
        [true, true, false],
        [1, 3]
      ]
    )
  })
})
