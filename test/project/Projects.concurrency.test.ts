/** Applies concurrent with other writes: other applies, and creates and patches of the API. */
import { assert, layer } from "../support/Vitest.ts"
import { Deferred, Effect, Fiber, Queue } from "effect"
import { SqlClient } from "effect/sql"
import type { ClientPatch } from "../../src/api/crm/Clients.ts"
import { ClientId, DealId, ProjectId, StageId } from "../../src/api/schema/Ids.ts"
import { exportProject } from "../../src/project/Export.ts"
import { deadlocks, untilBlocking } from "../support/Locks.ts"
import {
  apply,
  commandOf,
  configOf,
  Crm,
  faultsOf,
  type File,
  manyClients,
  projectRow,
  rowsOf,
  textOf,
  withCrm
} from "./Projects.support.ts"

/** Creates a client through the API; returns whether it was created. */
const create = Effect.fnUntraced(function* (projectId: string, key: string) {
  const { clients } = yield* Crm
  return yield* clients.create(commandOf(projectId, key), { displayName: "API" }).pipe(
    Effect.as(true),
    Effect.catchTag("contact_capacity_exhausted", () => Effect.succeed(false))
  )
})

/** Patches a client through the API; returns whether it was patched. */
const patch = Effect.fnUntraced(function* (projectId: string, key: string, id: string, changes: ClientPatch) {
  const { clients } = yield* Crm
  return yield* clients.patch(commandOf(projectId, key), ClientId.make(id), changes).pipe(
    Effect.as(true),
    Effect.catchTag(["contact_capacity_exhausted", "client_archived"], () => Effect.succeed(false))
  )
})

const countActive = Effect.fnUntraced(function* (projectId: string) {
  return (yield* rowsOf("clients", projectId)).filter(({ status }) => status === "active").length
})

const activeClients = Effect.fnUntraced(function* (projectId: string) {
  return (yield* projectRow(projectId))?.["active_clients"]
})

layer(withCrm, { excludeTestServices: true })("a concurrent apply", (it) => {
  it.effect("of the same new project succeeds twice", function* () {
    for (let round = 0; round < 3; round++) {
      const id = `twice-${round}`
      const file = {
        project: { contactCapacity: 10 },
        channels: [
          {
            id: "k",
            providerType: "http" as const,
            displayName: "K",
            config: { url: "https://chat.example/", signingSecret: "whsec_c2VjcmV0" }
          }
        ],
        clients: manyClients(50, { addresses: [{ channelId: "k", address: "1" }] }),
        conversations: [{ id: "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8", channelId: "k", address: "1" }]
      }
      const reports = yield* Effect.all(
        Array.from({ length: 4 }, () => apply(id, file)),
        { concurrency: "unbounded" }
      )
      const all = { project: 1, channels: 1, clients: 50, conversations: 1 }
      const none = { project: 0, channels: 0, clients: 0, conversations: 0 }
      const [first, ...others] = reports.toSorted((a, b) => (b.created["project"] ?? 0) - (a.created["project"] ?? 0))
      assert.deepInclude(first, { created: all, updated: none, unchanged: none })
      for (const report of others) assert.deepInclude(report, { created: none, updated: none, unchanged: all })
      assert.strictEqual((yield* projectRow(id))?.["active_clients"], 50)
      assert.lengthOf(yield* rowsOf("client_addresses", id), 50)
    }
  })

  for (const [before, after] of [
    [null, 1000],
    [60, 50],
    [1000, null]
  ] as const) {
    it.effect(`as creates and patches, counts exactly when the capacity goes from ${before} to ${after}`, function* () {
      const id = `busy-${before}-${after}`
      const file = (size: number) => manyClients(size, { tags: [String(size)] })
      const names = manyClients(40).map((client) => client.id)
      yield* apply(id, { project: { contactCapacity: before }, clients: file(40) })
      const writes = yield* Effect.forkChild(
        Effect.forEach(
          Array.from({ length: 400 }, (_, index) => index),
          (index): Effect.Effect<boolean, unknown, Crm> => {
            const name = names[index % names.length] ?? ""
            if (index % 4 === 0) return create(id, `create-${index}`)
            if (index % 4 === 1) return patch(id, `rename-${index}`, name, { firstName: `${index}` })
            return patch(id, `move-${index}`, name, { status: index % 4 === 2 ? "archived" : "active" })
          },
          { concurrency: 8 }
        )
      )
      for (let round = 1; round <= 8; round++) {
        yield* apply(id, { project: { contactCapacity: round < 4 ? before : after }, clients: file(40 + round) })
      }
      yield* Fiber.join(writes)
      assert.strictEqual(yield* activeClients(id), after === null ? 0 : yield* countActive(id))
    })
  }

  it.effect("as a create in flight that saw no capacity, waits for it and counts it", function* () {
    const id = "in-flight"
    yield* apply(id)
    const created = create(id, "key-1")
    const [, isCreated] = yield* waitingFor(apply(id, { project: { contactCapacity: 1 } }), created)
    assert.isTrue(isCreated)
    assert.strictEqual(yield* activeClients(id), 1)
    assert.isFalse(yield* create(id, "key-2"))
  })

  it.effect("as a patch of a client that it changes, keeps what the patch set", function* () {
    const id = "patched"
    yield* apply(id, { clients: [{ id: "c", displayName: "old" }] })
    const [report, isPatched] = yield* waitingFor(
      apply(id, { project: { name: "changed" }, clients: [{ id: "c", displayName: "new" }] }),
      patch(id, "key", "c", { firstName: "patched" })
    )
    assert.deepStrictEqual([report.updated["clients"], isPatched], [1, true])
    assert.deepInclude((yield* rowsOf("clients", id))[0], { display_name: "new", first_name: "patched", version: 3 })
  })

  it.effect("as a patch of a deal that it changes, starts from the patched deal", function* () {
    const id = "patched-deal"
    const stages = ["a", "b"].map((id) => ({ id, name: id }))
    yield* apply(id, {
      pipelines: [{ id: "p", name: "P", stages }],
      deals: [{ id: "d", title: "old", pipelineId: "p" }]
    })
    const { deals } = yield* Crm
    const changes = { stageId: StageId.make("b"), status: "lost", lostReason: "R" } as const
    const [[faults]] = yield* waitingFor(
      Effect.all([
        faultsOf(textOf(id, { pipelines: [{ id: "p", name: "P", stages: stages.slice(0, 1) }] })),
        apply(id, { deals: [{ id: "d", title: "new" }] })
      ]),
      deals.patch(commandOf(id, "key"), DealId.make("d"), changes)
    )
    assert.deepStrictEqual(faults, ["pipelines/0/stages: must keep the stage b: the deal d is in it"])
    const [deal] = yield* rowsOf("deals", id)
    assert.deepInclude(deal, { title: "new", stage_id: "b", status: "lost", lost_reason: "R", version: 3 })
    assert.isNotNull(deal?.["closed_at"])
  })

  it.effect("as another apply that changes a channel's config, starts from the changed config", function* () {
    const id = "config"
    const channels = (config: { readonly token: string; readonly apiBaseUrl?: string }) => ({
      channels: [{ id: "t", providerType: "telegram" as const, displayName: "T", config }]
    })
    yield* apply(id, channels({ token: "1" }))
    const other = apply(id, channels({ token: "2", apiBaseUrl: "http://127.0.0.1:8081" }))
    const [report] = yield* waitingFor(apply(id, channels({ token: "3" })), other)
    assert.strictEqual(report.updated["channels"], 1)
    assert.deepStrictEqual(yield* configOf(id, "t"), { token: "3", apiBaseUrl: "http://127.0.0.1:8081" })
  })

  it.effect("with all of this never deadlocks", function* () {
    assert.strictEqual(yield* deadlocks(yield* SqlClient.SqlClient), 0)
  })
})

layer(withCrm, { excludeTestServices: true })("an export beside mutations", (it) => {
  it.effect("has the state of one moment, and no mutation waits for it", function* () {
    const id = "exported"
    const projectId = ProjectId.make(id)
    yield* apply(id, {
      project: { defaultPipelineId: "p" },
      pipelines: [{ id: "p", name: "p", stages: [{ id: "s", name: "s" }] }],
      clients: manyClients(3_000)
    })
    const { clients, deals } = yield* Crm
    let text = ""
    let made = 0
    /** Creates a client and then a deal of it: a file that has the deal has the client, in whatever order they are read. */
    const mutate = Effect.gen(function* () {
      const key = `key-${made++}`
      const { resourceId } = yield* clients.create(commandOf(id, key), { displayName: "Later" })
      yield* clients.patch(commandOf(id, `patch-${key}`), ClientId.make("cli_000000"), { firstName: key })
      yield* deals.create(commandOf(id, `deal-${key}`), { title: "Later", clientId: ClientId.make(resourceId) })
    })
    yield* mutate
    const written = yield* Queue.unbounded<void>()
    const mutated = yield* Queue.unbounded<void>()
    // Forked outside of the transaction of the export, which it would join otherwise.
    yield* Queue.take(written).pipe(
      Effect.andThen(mutate),
      Effect.andThen(Queue.offer(mutated, undefined)),
      Effect.forever,
      Effect.forkScoped
    )
    // The export does not go on until the mutations of a piece are answered.
    yield* exportProject(projectId, (piece) => {
      text += piece
      return Queue.offer(written, undefined).pipe(
        Effect.andThen(Queue.take(mutated)),
        Effect.timeout("30 seconds"),
        Effect.orDie
      )
    })
    assert.isAbove(made, 3)
    const file: File = JSON.parse(text)
    assert.lengthOf(file.clients ?? [], 3_001)
    assert.lengthOf(file.deals ?? [], 1)
    assert.strictEqual(file.clients?.find(({ id }) => id === "cli_000000")?.firstName, "key-0")
  })
})

/** Runs an apply that waits for the end of the transaction of a change; returns the results of both. */
const waitingFor = Effect.fnUntraced(function* <A, E, R, B, E1, R1>(
  applied: Effect.Effect<A, E, R>,
  change: Effect.Effect<B, E1, R1>
) {
  const sql = yield* SqlClient.SqlClient
  const signal = yield* Deferred.make<void>()
  // Forked outside of the transaction of the change, which it would join otherwise.
  const applying = yield* Effect.forkChild(Effect.andThen(Deferred.await(signal), applied))
  const changed = yield* sql.withTransaction(
    Effect.gen(function* () {
      const changed = yield* change
      yield* Deferred.succeed(signal, undefined)
      yield* untilBlocking(sql)
      return changed
    })
  )
  return [yield* Fiber.join(applying), changed] as const
})
