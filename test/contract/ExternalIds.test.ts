/** External ids, which are unique among the clients and among the deals of a project (contract §7). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { deadlocks } from "../support/Locks.ts"
import { put } from "../support/Rows.ts"
import { type Parts, startServer, TestServer } from "../support/TestServer.ts"
import * as Clients from "./Clients.support.ts"
import * as Deals from "./Deals.support.ts"
import { newKey } from "./Requests.ts"

const { atOnce } = Clients

interface Kind {
  readonly path: string
  readonly parts?: Parts
  /** A body without an external id. */
  readonly body: object
  /** The member without which an upsert creates nothing, and what is reported there. */
  readonly required: readonly [member: string, message: string]
  /** Members of an upsert, also those that only a patch can set. */
  readonly whole: object
  /** A record that an upsert of the members `change` can change, though it could not create one. */
  readonly existing: object
  readonly change: object
}

const kinds: Readonly<Record<string, Kind>> = {
  clients: {
    path: Clients.path,
    body: { displayName: "A" },
    required: ["displayName", "is required, as no client has this externalId"],
    whole: { displayName: "B", status: "archived", organizationId: "o", marketingConsent: true, tags: ["a"] },
    existing: {},
    change: { lastName: "B" },
    parts: { organizations: [{ id: "o", name: "O" }] }
  },
  deals: {
    path: Deals.path,
    parts: { project: { defaultPipelineId: "sales" }, pipelines: Deals.pipelines },
    body: { title: "A" },
    required: ["title", "is required, as no deal has this externalId"],
    whole: {
      title: "B",
      status: "lost",
      lostReason: "Late",
      lifecycle: "archived",
      stageId: "agreed",
      amountMinor: 1,
      currency: "EUR"
    },
    existing: { pipeline_id: "sales", stage_id: "new", amount_minor: 1, currency: "EUR" },
    change: { amountMinor: 2 }
  }
}

layer(TestServer.layer(), { excludeTestServices: true })("an external id", (it) => {
  for (const [kind, { body, change, existing, parts, path, required, whole }] of Object.entries(kinds)) {
    const open = Effect.fnUntraced(function* () {
      const server = yield* TestServer
      const replica = yield* startServer({ DATABASE_URL: server.databaseUrl }, "api")
      const { projectId, token } = yield* server.seed(parts)
      const ask = (method: string, at: string, json: object, index = 0, key = newKey()) =>
        (index % 2 === 0 ? server.send : replica.send)({ method, path: at, token, key, json })
      return {
        path,
        projectId,
        server,
        token,
        upsert: (externalId: string, json: object, index?: number, key?: string) =>
          ask("PUT", `${path}/by-external-id/${encodeURIComponent(externalId)}`, json, index, key),
        read: (id: string) => server.send({ path: `${path}/${id}`, token }),
        create: (json: object, index?: number) => ask("POST", path, { ...body, ...json }, index),
        patch: (id: string, json: object, index?: number) => ask("PATCH", `${path}/${id}`, json, index)
      }
    })

    it.effect(`of ${kind} is refused while another record has it, and taken once it is free`, function* () {
      const { create, patch } = yield* open()
      const created = (json: object) => Effect.map(create(json), (answer) => receiptOf(answer, 201).resourceId)
      const first = yield* created({ externalId: "a" })
      const second = yield* created({ externalId: "A" })
      const refused = [create({ externalId: "a" }), patch(second, { externalId: "a" })]
      for (const refuse of refused) {
        assert.strictEqual(problemOf(yield* refuse, 409, "external_id_taken").resourceId, first)
      }
      // A record keeps its own.
      assert.isFalse(receiptOf(yield* patch(first, { externalId: "a" }), 200).changed)
      receiptOf(yield* patch(first, { externalId: null }), 200)
      assert.isTrue(receiptOf(yield* patch(second, { externalId: "a" }), 200).changed)
      assert.strictEqual(problemOf(yield* create({ externalId: "a" }), 409, "external_id_taken").resourceId, second)
      yield* created({ externalId: "A" })
    })

    it.effect(`of ${kind} names the record of an upsert, which creates it once and then changes it`, function* () {
      const { patch, read, upsert } = yield* open()
      const [member, message] = required
      const missing = problemOf(yield* upsert("new / ä", {}), 400, "validation_failed")
      assert.deepStrictEqual(missing.errors, { [`body/${member}`]: [message] })
      const key = newKey()
      const created = receiptOf(yield* upsert("new / ä", whole, 0, key), 201)
      assert.deepInclude(created, { changed: true, version: 1, replayed: false })
      const record: Record<string, unknown> = JSON.parse((yield* read(created.resourceId)).text)
      assert.deepInclude(record, { ...whole, externalId: "new / ä", version: 1 })
      assert.isString(record["archivedAt"] ?? record["closedAt"])
      // The replay has the status of the first answer, also once the id is that of another record.
      assert.deepStrictEqual(receiptOf(yield* upsert("new / ä", whole, 1, key), 201), { ...created, replayed: true })
      assert.deepInclude(receiptOf(yield* upsert("new / ä", kind === "clients" ? { status: "active" } : {}), 200), {
        resourceId: created.resourceId,
        changed: kind === "clients"
      })
      const same = receiptOf(yield* upsert("new / ä", { [member]: "B" }), 200)
      assert.isFalse(same.changed)
      const changed = receiptOf(yield* upsert("new / ä", { [member]: "C" }), 200)
      assert.deepInclude(changed, { resourceId: created.resourceId, changed: true, version: same.version + 1 })
      receiptOf(yield* patch(created.resourceId, { externalId: null }), 200)
      assert.notStrictEqual(receiptOf(yield* upsert("new / ä", { [member]: "D" }), 201).resourceId, created.resourceId)
      assert.deepStrictEqual(receiptOf(yield* upsert("new / ä", whole, 0, key), 201), { ...created, replayed: true })
    })

    it.effect(`of ${kind} is the condition of an upsert, which may only create or only change`, function* () {
      const { path, server, token, read } = yield* open()
      const [member] = required
      const ask = (headers: Readonly<Record<string, string>>, key = newKey()) =>
        server.send({
          method: "PUT",
          path: `${path}/by-external-id/a`,
          token,
          key,
          json: { [member]: newKey() },
          headers
        })
      for (const tag of ["*", '"1"']) {
        assert.isNull(problemOf(yield* ask({ "if-match": tag }), 412, "precondition_failed").currentVersion)
      }
      const key = newKey()
      const json = { [member]: "A" }
      const create = {
        method: "PUT",
        path: `${path}/by-external-id/a`,
        token,
        key,
        json,
        headers: { "if-none-match": "*" }
      }
      const created = receiptOf(yield* server.send(create), 201)
      assert.deepStrictEqual(receiptOf(yield* server.send(create), 201), { ...created, replayed: true })
      const exists = problemOf(yield* ask({ "if-none-match": "*" }), 412, "precondition_failed")
      assert.strictEqual(exists.currentVersion, 1)
      assert.include(exists.title, "if-none-match")
      assert.strictEqual(problemOf(yield* ask({ "if-match": '"2"' }), 412, "precondition_failed").currentVersion, 1)
      assert.strictEqual(receiptOf(yield* ask({ "if-match": '"1"' }), 200).version, 2)
      assert.strictEqual((yield* read(created.resourceId)).headers["etag"], '"2"')
    })

    it.effect(
      `of ${kind} names a record that is created while an upsert of it waits, which then changes it`,
      function* () {
        const { projectId, read, server, upsert } = yield* open()
        const upserting = yield* server.sql.withTransaction(
          Effect.gen(function* () {
            yield* server.sql`SELECT pg_advisory_xact_lock(hashtextextended(${projectId}, 0))`
            const upserting = yield* Effect.forkChild(upsert("a", change))
            // In this time, the upsert finds no record. Its statement then waits for the project.
            yield* Effect.sleep("500 millis")
            yield* put(server.sql, kind, { project_id: projectId, id: "first", external_id: "a", ...existing })
            return upserting
          })
        )
        assert.deepInclude(receiptOf(yield* Fiber.join(upserting), 200), { resourceId: "first", version: 2 })
        assert.deepInclude(JSON.parse((yield* read("first")).text), change)
      }
    )

    it.effect(`of ${kind} gets one record of upserts, creates and patches at once on two replicas`, function* () {
      const { create, patch, projectId, server, upsert } = yield* open()
      const [member] = required
      for (const externalId of ["one", "two", "three"]) {
        const other = receiptOf(yield* create({}), 201).resourceId
        const answers = yield* atOnce(40, (index) => {
          if (index % 10 === 4) return create({ externalId }, index)
          if (index % 10 === 9) return patch(other, { externalId: index === 9 ? externalId : null }, index)
          return upsert(externalId, { [member]: `${index}` }, index)
        })
        const upserts = answers.filter((_, index) => index % 5 !== 4)
        for (const answer of upserts) receiptOf(answer, answer.status === 201 ? 201 : 200)
        const holders = yield* server.sql<{ readonly id: string; readonly version: number }>`
            SELECT id, version FROM ${server.sql(kind)} WHERE project_id = ${projectId} AND external_id = ${externalId}`
        assert.lengthOf(holders, 1)
        // Only a patch can take the id from its record, so that another one gets it.
        const made = answers.filter(({ status }) => status === 201)
        assert.isAtMost(made.length, 2)
      }
      assert.strictEqual(yield* deadlocks(server.sql), 0)
    })
  }
})
