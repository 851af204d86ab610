/** The import preview over HTTP: its answer, its problems, and concurrent requests. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { problemOf } from "../support/ContractAnswers.ts"
import { holding } from "../support/Locks.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { until } from "../support/Waiting.ts"

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

  it.effect("is answered before the many that another project has asked for", function* () {
    const { seed, send } = yield* TestServer
    const records = Array.from({ length: 1_000 }, (_, n) => ({
      entityType: "contact" as const,
      externalId: `${n}`,
      fields: { name: `Client ${n}` }
    }))
    const ids = Array.from({ length: 16 }, (_, n) => `ins-${n}`)
    const installations = ids.map((id) => ({ ...installation, id, stagedRecords: records }))
    const busy = yield* seed({ installations, clients: [] })
    const other = yield* seed(project)
    const finished: Array<string> = []
    const ask = (id: string, token: string) =>
      Effect.map(send({ method: "POST", path: path(id), token }), ({ status }) => {
        assert.strictEqual(status, 200)
        finished.push(id)
      })
    const many = yield* Effect.forkChild(
      Effect.forEach(ids, (id) => ask(id, busy.token), { concurrency: "unbounded", discard: true })
    )
    // When the first is answered, all others wait.
    yield* until(() => finished.length > 0)
    yield* ask("ins", other.token)
    yield* Fiber.join(many)
    assert.isBelow(finished.indexOf("ins"), ids.length - 2, finished.join())
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
