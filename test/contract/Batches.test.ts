/** Batches of upserts (contract §7), their price (§4), and their repeats (§5). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { faultsOf, problemOf, remainingOf, replayedOf, resultsOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { deadlocks, holding } from "../support/Locks.ts"
import { type Parts, startServer, TestServer } from "../support/TestServer.ts"
import * as Clients from "./Clients.support.ts"
import * as Deals from "./Deals.support.ts"
import { newKey } from "./Requests.ts"

/** Returns the outcome of each item in a word. */
const outcomesOf = (answer: Answer) =>
  resultsOf(answer).map((result) =>
    "problem" in result ? result.problem.code : result.created ? "created" : result.changed ? "changed" : "same"
  )

interface Kind {
  readonly path: string
  readonly parts?: Parts
  /** The member without which an upsert creates nothing, and what is reported there. */
  readonly required: readonly [member: string, message: string]
  /** Members that no project accepts, with the code of the problem. */
  readonly refused: readonly [members: object, code: string]
  /** What a record of a project file needs beside its id and its name. */
  readonly placed: object
}

const kinds: Readonly<Record<string, Kind>> = {
  clients: {
    path: Clients.path,
    required: ["displayName", "is required, as no client has this externalId"],
    refused: [{ organizationId: "nothing" }, "organization_not_found"],
    placed: {}
  },
  deals: {
    path: Deals.path,
    parts: { project: { defaultPipelineId: "sales" }, pipelines: Deals.pipelines },
    required: ["title", "is required, as no deal has this externalId"],
    refused: [{ stageId: "nothing" }, "deal_reference_not_found"],
    placed: { pipelineId: "sales", stageId: "new" }
  }
}

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a batch", (it) => {
  for (const [kind, { parts, path, placed, refused, required }] of Object.entries(kinds)) {
    const [member, message] = required
    const open = Effect.fnUntraced(function* (more: Parts = {}) {
      const server = yield* TestServer
      const { projectId, token } = yield* server.seed({
        ...parts,
        ...more,
        project: { ...parts?.project, ...more.project }
      })
      const send = (method: string, at: string, json: object, key = newKey()) =>
        server.send({ method, path: `${path}${at}`, token, key, json })
      return {
        server,
        projectId,
        token,
        send,
        batch: (items: ReadonlyArray<object>, key?: string) => send("POST", "/batch", { items }, key),
        upsert: (externalId: string, json: object) => send("PUT", `/by-external-id/${externalId}`, json),
        stored: server.sql<{ readonly id: string; readonly externalId: string; readonly version: number }>`
          SELECT id, external_id AS "externalId", version FROM ${server.sql(kind)}
          WHERE project_id = ${projectId} ORDER BY external_id`.pipe(Effect.orDie)
      }
    })
    const item = (externalId: string, name = "A") => ({ externalId, [member]: name })

    it.effect(`of ${kind} runs each item as an upsert of its own, and answers in their order`, function* () {
      const { batch, stored, upsert } = yield* open()
      yield* upsert("known", { [member]: "A" })
      yield* upsert("same", { [member]: "A" })
      const [members, code] = refused
      const answer = yield* batch([
        item("new"),
        { externalId: "nameless" },
        item("known", "B"),
        { ...item("refused"), ...members },
        item("same"),
        { ...members, ...item("known too") }
      ])
      assert.isFalse(replayedOf(answer))
      assert.deepStrictEqual(outcomesOf(answer), ["created", "validation_failed", "changed", code, "same", code])
      const [first, nameless] = resultsOf(answer)
      assert.deepInclude(nameless, { externalId: "nameless" })
      const problem = nameless !== undefined && "problem" in nameless ? nameless.problem : assert.fail()
      assert.deepInclude(problem, {
        type: "urn:developer-api:problem:validation_failed",
        status: 400,
        title: "The request does not have the required form.",
        detail: `See errors: body/items/1/${member}.`,
        instance: `urn:developer-api:request:${answer.headers["x-request-id"]}`,
        errors: { [`body/items/1/${member}`]: [message] }
      })
      const records = yield* stored
      assert.deepStrictEqual(
        records.map(({ externalId, version }) => `${externalId} ${version}`),
        ["known 2", "new 1", "same 1"]
      )
      assert.deepInclude(first, { externalId: "new", resourceId: records[1]?.id })
    })

    it.effect(`of ${kind} is answered again as it was, and tries again only what has failed`, function* () {
      const { batch, send, stored, upsert } = yield* open()
      const key = newKey()
      const items = [item("a"), { externalId: "b" }, item("c")]
      const first = yield* batch(items, key)
      assert.deepStrictEqual(outcomesOf(first), ["created", "validation_failed", "created"])
      yield* upsert("a", { [member]: "Later" })
      yield* upsert("b", { [member]: "Later" })
      const second = yield* batch(items, key)
      assert.isFalse(replayedOf(second))
      assert.deepStrictEqual(outcomesOf(second), ["created", "same", "created"])
      const third = yield* batch(items, key)
      assert.isTrue(replayedOf(third))
      assert.strictEqual(third.text, second.text)
      assert.deepStrictEqual(
        (yield* stored).map(({ externalId, version }) => `${externalId} ${version}`),
        ["a 2", "b 1", "c 1"]
      )
      // Its key is that of this request alone.
      problemOf(yield* batch([...items, item("d")], key), 409, "idempotency_key_reused")
      problemOf(yield* send("POST", "", { [member]: "A" }, key), 409, "idempotency_key_reused")
      const single = newKey()
      yield* send("POST", "", { [member]: "A" }, single)
      problemOf(yield* batch(items, single), 409, "idempotency_key_reused")
    })

    it.effect(`of ${kind} that could not finish is finished by its repeat, each item once`, function* () {
      const { batch, projectId, server, stored, upsert } = yield* open()
      yield* upsert("locked", { [member]: "A" })
      const lock = server.sql`
        SELECT FROM ${server.sql(kind)} WHERE project_id = ${projectId} AND external_id = 'locked' FOR UPDATE`
      const key = newKey()
      const items = [item("a"), item("locked", "B"), item("c")]
      const held = yield* holding(server.sql, lock)
      const alone = batch([item("locked", "B")])
      const [first, refused] = yield* Effect.all([batch(items, key), alone], { concurrency: 2 })
      assert.deepStrictEqual(outcomesOf(first), ["created", "service_unavailable", "created"])
      // No item could be tried.
      problemOf(refused, 503, "service_unavailable")
      yield* held.release
      const second = yield* batch(items, key)
      const [, outcome] = outcomesOf(second)
      assert.deepStrictEqual(outcomesOf(second), ["created", outcome, "created"])
      assert.oneOf(outcome, ["changed", "same"])
      assert.deepStrictEqual(resultsOf(second).toSpliced(1, 1), resultsOf(first).toSpliced(1, 1))
      assert.isTrue(replayedOf(yield* batch(items, key)))
      assert.deepStrictEqual(
        (yield* stored).map(({ externalId, version }) => `${externalId} ${version}`),
        ["a 1", "c 1", "locked 2"]
      )
    })

    it.effect(`of ${kind} is refused whole for faults of shape, at their places`, function* () {
      const { batch, send, stored } = yield* open()
      const many = Array.from({ length: 101 }, (_, index) => item(`id ${index}`))
      assert.deepStrictEqual(faultsOf(yield* batch([])), ["body/items"])
      assert.deepStrictEqual(faultsOf(yield* batch(many)), ["body/items"])
      const faulty = [item("a"), { ...item("b"), surprise: 1 }, item("c", ""), { [member]: "A" }, item("")]
      assert.deepStrictEqual(faultsOf(yield* batch(faulty)), [
        "body/items/1/surprise",
        `body/items/2/${member}`,
        "body/items/3/externalId",
        "body/items/4/externalId"
      ])
      const repeated = [item("a"), item("b"), item("a", "B"), item("A"), item("b")]
      const { errors } = problemOf(yield* batch(repeated), 400, "validation_failed")
      const rule = ["must be another one than in the items before"] as const
      assert.deepStrictEqual(errors, { "body/items/2/externalId": rule, "body/items/4/externalId": rule })
      assert.deepStrictEqual(faultsOf(yield* send("POST", "/batch", { items: [item("a")], item: 1 })), ["body/item"])
      assert.deepStrictEqual(yield* stored, [])
    })

    it.effect(`of ${kind} costs one for ten items, all or nothing`, function* () {
      const limit = { limit: 12, windowSeconds: 120 }
      const { batch } = yield* open({ project: { rateLimits: { write: limit } } })
      const items = (length: number, name?: string) => Array.from({ length }, (_, index) => item(`id ${index}`, name))
      const left = (answer: Answer) => remainingOf(answer, "write")
      assert.strictEqual(left(yield* batch(items(10))), 11)
      assert.strictEqual(left(yield* batch(items(61))), 4)
      faultsOf(yield* batch([item("a"), item("a")]))
      for (const _ of [1, 2, 3]) {
        const refused = yield* batch(items(100, "B"))
        problemOf(refused, 429, "rate_limit_exceeded")
        assert.strictEqual(left(refused), 3)
        // Seven more, one every 10 s.
        const retryAfter = Number(refused.headers["retry-after"])
        assert.isTrue(retryAfter > 60 && retryAfter <= 70, String(retryAfter))
      }
      assert.deepStrictEqual(new Set(outcomesOf(yield* batch(items(21)))), new Set(["same"]))
      problemOf(yield* batch(items(1)), 429, "rate_limit_exceeded")
      // No batch costs more than the whole bucket.
      const small = yield* open({ project: { rateLimits: { write: { limit: 2, windowSeconds: 120 } } } })
      assert.strictEqual(left(yield* small.batch(items(100))), 0)
    })

    it.effect(`of ${kind} and other writers at once make one record of each external id`, function* () {
      const { projectId, server, token, stored } = yield* open()
      const replica = yield* startServer({ DATABASE_URL: server.databaseUrl }, "api")
      const ids = Array.from({ length: 12 }, (_, index) => `id-${index}`)
      for (const round of [0, 1, 2]) {
        const file = { [kind]: [{ id: `file-${round}`, ...item(`id-${round}`, "File"), ...placed }] }
        const answers = yield* Clients.atOnce(24, (index) => {
          const externalId = ids[index % ids.length] ?? ""
          const ask = (method: string, at: string, json: object) =>
            (index % 2 === 0 ? server : replica).send({ method, path: `${path}${at}`, token, key: newKey(), json })
          // A file is refused if another record has the id.
          if (index === 12) return Effect.as(Effect.exit(server.apply(projectId, { ...parts, ...file })), undefined)
          if (index % 3 === 0) return ask("PUT", `/by-external-id/${externalId}`, { [member]: `${index}` })
          if (index % 6 === 1) return ask("POST", "", item(externalId))
          const items = (index % 4 < 2 ? ids : ids.toReversed()).map((id) => item(id, `${round} ${index}`))
          return ask("POST", "/batch", { items })
        })
        for (const [index, answer] of answers.entries()) {
          if (answer === undefined) continue
          assert.oneOf(answer.status, index % 6 === 1 ? [201, 409] : [200, 201], answer.text)
          if (index % 3 !== 0 && index % 6 !== 1) {
            for (const outcome of outcomesOf(answer)) assert.oneOf(outcome, ["created", "changed", "same"])
          }
        }
        assert.deepStrictEqual(
          (yield* stored).map(({ externalId }) => externalId),
          ids.toSorted()
        )
      }
      assert.strictEqual(yield* deadlocks(server.sql), 0)
    })
  }

  it.effect("has at most 1 MiB, with 100 tags on each of 100 clients", function* () {
    const { send, token } = { ...(yield* TestServer), ...(yield* (yield* TestServer).seed()) }
    const ask = (body: string) =>
      send({
        method: "POST",
        path: `${Clients.path}/batch`,
        token,
        key: newKey(),
        body,
        headers: { "content-type": "application/json" }
      })
    const tags = (index: number) => Array.from({ length: 100 }, (_, tag) => `${index} ${tag}`.padEnd(95, "x"))
    const items = Array.from({ length: 100 }, (_, index) => ({
      externalId: `${index}`,
      displayName: "A",
      tags: tags(index)
    }))
    const whole = JSON.stringify({ items })
    assert.isAbove(whole.length, 900_000)
    const padded = whole + " ".repeat(1024 * 1024 - whole.length)
    assert.deepStrictEqual(new Set(outcomesOf(yield* ask(padded))), new Set(["created"]))
    problemOf(yield* ask(`${padded} `), 413, "body_too_large")
  })
})
