/** External ids, which are unique among the clients and among the deals of a project (contract §7). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { deadlocks } from "../support/Deadlocks.ts"
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
}

const kinds: Readonly<Record<string, Kind>> = {
  clients: { path: Clients.path, body: { displayName: "A" } },
  deals: {
    path: Deals.path,
    parts: { project: { defaultPipelineId: "sales" }, pipelines: Deals.pipelines },
    body: { title: "A" }
  }
}

layer(TestServer.layer(), { excludeTestServices: true })("an external id", (it) => {
  for (const [kind, { body, parts, path }] of Object.entries(kinds)) {
    const open = Effect.fnUntraced(function* () {
      const server = yield* TestServer
      const replica = yield* startServer({ DATABASE_URL: server.databaseUrl }, "api")
      const { projectId, token } = yield* server.seed(parts)
      const ask = (method: string, at: string, json: object, index = 0) =>
        (index % 2 === 0 ? server.send : replica.send)({ method, path: at, token, key: newKey(), json })
      return {
        projectId,
        server,
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

    it.effect(
      `of ${kind} is given to one of many records that are created and patched at once on two replicas`,
      function* () {
        const { create, patch, projectId, server } = yield* open()
        for (const externalId of ["one", "two", "three"]) {
          const ids = yield* Effect.forEach(
            [0, 1, 2, 3, 4, 5],
            () => Effect.map(create({}), (answer) => receiptOf(answer, 201).resourceId),
            { concurrency: "unbounded" }
          )
          // Commands with other external ids share groups with them.
          const answers = yield* atOnce(48, (index) => {
            const json = { externalId: index % 4 === 3 ? `${externalId} ${index}` : externalId }
            const id = ids[index % 12]
            return id === undefined ? create(json, index) : patch(id, json, index)
          })
          const holders = yield* server.sql<{ readonly id: string }>`
            SELECT id FROM ${server.sql(kind)} WHERE project_id = ${projectId} AND external_id = ${externalId}`
          // A patch of the same record by a later request may have replaced the id since.
          assert.isAtMost(holders.length, 1)
          for (const answer of answers) {
            if (answer.status !== 409) receiptOf(answer, answer.status === 201 ? 201 : 200)
            else assert.isString(problemOf(answer, 409, "external_id_taken").resourceId)
          }
          assert.isAbove(answers.filter(({ status }) => status === 409).length, 10)
        }
        assert.strictEqual(yield* deadlocks(server.sql), 0)
      }
    )
  }
})
