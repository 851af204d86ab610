/** The import preview over HTTP: its answer, its problems, and concurrent requests. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { problemOf } from "../support/ContractAnswers.ts"
import { holding } from "../support/Locks.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { untilRows } from "../support/Waiting.ts"

const path = (installationId: string) => `/api/v1/developer/integrations/${installationId}/preview`

const installation = {
  id: "ins",
  name: "Shop",
  importProfile: { version: 3, mappings: { contact: { name: "displayName", mail: "email" }, note: { text: "body" } } },
  stagedRecords: [
    { entityType: "contact", externalId: "1", fields: { name: "Ada", mail: "ada@example.org", age: 36 } },
    { entityType: "contact", externalId: "2", fields: { name: "Ada", mail: "ADA@example.org" } },
    { entityType: "note", externalId: "1", fields: { text: 1 } }
  ]
} as const
const project: Parts = {
  clients: [{ id: "ada", displayName: "Ada Lovelace", email: "ada@example.org" }],
  installations: [installation]
}

layer(TestServer.layer(), { excludeTestServices: true })("the import preview", (it) => {
  it.effect("refuses an installation that is not ready", function* () {
    const { apply, seed, send } = yield* TestServer
    const { projectId, token } = yield* seed(project)
    const ask = (id: string) => send({ method: "POST", path: path(id), token })
    for (const [id, parts, detail] of [
      ["a", { ...installation, status: "disabled" }, "The installation is disabled."],
      ["b", { importProfile: installation.importProfile }, "The installation has no staged records."],
      ["c", { stagedRecords: installation.stagedRecords }, "The installation has no import profile."]
    ] as const) {
      yield* apply(projectId, { installations: [{ name: "Shop", ...parts, id }] })
      assert.strictEqual(problemOf(yield* ask(id), 409, "installation_not_ready").detail, detail)
    }
  })

  it.effect("is one statement of a project at a time, in turns with others", function* () {
    const { seed, send, sql } = yield* TestServer
    const bucket = { limit: 1_000, windowSeconds: 86_400 }
    const busy = yield* seed({
      project: { rateLimits: { read: bucket, write: bucket, messages: bucket } },
      installations: ["a", "b", "c", "d", "e", "f"].map((id) => ({ ...installation, id }))
    })
    const other = yield* seed(project)
    const fibers: Array<Fiber.Fiber<void>> = []
    const ask = Effect.fnUntraced(function* (token: string, id: string) {
      const answer = Effect.map(send({ method: "POST", path: path(id), token }), ({ status }) => {
        assert.strictEqual(status, 200)
      })
      fibers.push(yield* Effect.forkChild(answer))
    })
    let reads = 0
    /** The number of previews that the busy project has asked for, by what it has left of its limit. */
    const asked = Effect.map(send({ path: "/api/v1/developer/credential", token: busy.token }), ({ headers }) => {
      reads++
      return bucket.limit - reads - Number(/;r=(\d+)/.exec(String(headers["ratelimit"]))?.[1])
    })
    const waiting = Effect.orDie(sql`SELECT FROM pg_locks WHERE NOT granted AND relation = 'staged_contacts'::regclass`)

    const { release } = yield* holding(sql, sql`LOCK TABLE staged_contacts IN ACCESS EXCLUSIVE MODE`)
    for (const ids of [["a"], ["b"], ["c", "d", "e", "f"]]) {
      for (const id of ids) yield* ask(busy.token, id)
      yield* untilRows(asked, (count) => count === fibers.length)
    }
    yield* untilRows(waiting, ({ length }) => length > 0)
    assert.isAtMost((yield* waiting).length, 1)
    yield* ask(other.token, "ins")
    yield* untilRows(waiting, ({ length }) => length > 1)
    yield* release
    for (const fiber of fibers) yield* Fiber.join(fiber)
  })

  it.effect("waits for no concurrent change and reads committed data", function* () {
    const { seed, send, sql } = yield* TestServer
    const { projectId, token } = yield* seed(project)
    const request = { method: "POST", path: path("ins"), token }
    const before = yield* send(request)
    // More than an apply can hold.
    const changes = Effect.gen(function* () {
      yield* sql`SELECT pg_advisory_xact_lock(hashtextextended(${projectId}, 0))`
      yield* sql`SELECT FROM projects WHERE project_id = ${projectId} FOR UPDATE`
      for (const table of ["clients", "installations", "staged_batches", "staged_records", "staged_contacts"]) {
        yield* sql`LOCK TABLE ${sql(table)} IN EXCLUSIVE MODE`
      }
      yield* sql`UPDATE clients SET display_name = 'Ada', version = 2 WHERE project_id = ${projectId}`
      yield* sql`DELETE FROM staged_contacts WHERE project_id = ${projectId}`
    })
    const { release } = yield* holding(sql, changes)
    const during = yield* send(request)
    yield* release
    assert.strictEqual(during.text, before.text)
  })
})
