/** Commands in a group, compared with the same commands one by one. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import fc from "fast-check"
import { ClientId, MemberId, OrganizationId, ProjectId } from "../../src/api/schema/Ids.ts"
import type { ClientPatch } from "../../src/api/crm/Clients.ts"
import type { Outcome } from "../../src/commands/Command.ts"
import { apply, commandOf, Crm, withCrm } from "../project/Projects.support.ts"

const clientNames = ["ada", "bob", "cyd", "dan"]

/** Creates a project with four clients, one of them archived. */
const open = Effect.fnUntraced(function* (id: string, contactCapacity: number | null) {
  yield* apply(id, {
    project: { contactCapacity },
    organizations: [
      { id: "acme", name: "Acme" },
      { id: "gone", name: "Gone", archived: true }
    ],
    members: [{ id: "anna", name: "Anna" }],
    clients: clientNames.map((name) => ({
      id: name,
      displayName: name,
      status: name === "dan" ? "archived" : "active"
    }))
  })
  return ProjectId.make(id)
})

/** A command: a create, or a patch of a client that may be missing. */
interface Step {
  readonly key: string
  readonly create?: string
  readonly patch?: readonly [client: string, changes: ClientPatch]
}

const patches: fc.Arbitrary<ClientPatch> = fc.oneof(
  fc.record({ firstName: fc.constantFrom("A", "B", null) }),
  fc.record({ tags: fc.constantFrom([], ["a"], ["a", "b"]) }),
  fc.record({ organizationId: fc.constantFrom(OrganizationId.make("acme"), OrganizationId.make("gone"), null) }),
  fc.record({ responsibleMemberId: fc.constantFrom(MemberId.make("anna"), MemberId.make("nobody")) }),
  fc.record({ status: fc.constantFrom("active", "archived") })
)

/** Steps with different keys. */
const steps: fc.Arbitrary<ReadonlyArray<Step>> = fc
  .array(
    fc.oneof(
      fc.record({ create: fc.constantFrom("eve", "fay") }),
      fc.record({ patch: fc.tuple(fc.constantFrom(...clientNames, "nobody"), patches) })
    ),
    { minLength: 1, maxLength: 40 }
  )
  .map((some) => some.map((step, index) => ({ key: `step-${index}`, ...step })))

/** Runs a step; returns its result without the generated id: a receipt, or the code of a problem. */
const run = Effect.fnUntraced(function* (projectId: ProjectId, step: Step) {
  const { clients } = yield* Crm
  const { create, key, patch } = step
  const own = commandOf(projectId, key, { create, patch })
  const sent: Effect.Effect<Outcome<unknown>, { readonly _tag: string }> = patch === undefined
    ? clients.create(own, { displayName: create ?? "" })
    : clients.patch(own, ClientId.make(patch[0]), patch[1])
  const exit = yield* Effect.exit(
    Effect.match(sent, {
      onFailure: ({ _tag }) => _tag,
      onSuccess: ({ changed, replayed, version }) => `${changed} ${version} ${replayed}`
    })
  )
  return Exit.isSuccess(exit) ? exit.value : String(exit.cause)
})

/** Reads the members of a project's clients that the commands set. */
const clientsOf = Effect.fnUntraced(function* (projectId: ProjectId) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql`
    SELECT CASE WHEN id LIKE 'cli\\_%' THEN '' ELSE id END AS id, display_name, first_name, tags, organization_id,
      responsible_member_id, status, version
    FROM clients WHERE project_id = ${projectId} ORDER BY 1, 2, 8`
})

const activeOf = Effect.fnUntraced(function* (projectId: ProjectId) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly counted: number; readonly active: number; readonly capacity: number | null }>`
    SELECT active_clients AS counted, contact_capacity AS capacity,
      (SELECT count(*)::int FROM clients WHERE project_id = ${projectId} AND status = 'active') AS active
    FROM projects WHERE project_id = ${projectId}`
  return row
})

let projects = 0

layer(withCrm, { excludeTestServices: true })("commands of a group", (it) => {
  it.effect("have the same outcomes as one by one in every project", function* () {
    for (const some of fc.sample(steps, 20)) {
      const ids = [`group-${projects++}`, `group-${projects++}`]
      const together = yield* Effect.forEach(ids, (id) => open(id, null))
      const single = yield* open(`single-${projects++}`, null)
      const grouped = yield* Effect.forEach(
        together,
        (id) => Effect.forEach(some, (step) => run(id, step), { concurrency: "unbounded" }),
        { concurrency: "unbounded" }
      )
      const alone = yield* Effect.forEach(some, (step) => run(single, step))
      for (const [index, id] of together.entries()) {
        assert.deepStrictEqual(grouped[index], alone, JSON.stringify(some))
        assert.deepStrictEqual(yield* clientsOf(id), yield* clientsOf(single))
      }
    }
  })

  it.effect("are one transaction in which a refused command has no effect on others", function* () {
    const sql = yield* SqlClient.SqlClient
    const id = yield* open(`one-${projects++}`, null)
    const patched = clientNames.map((client) => ({
      key: `patch-${client}`,
      patch: [client, { firstName: "X" }] as const
    }))
    const results = yield* Effect.forEach(patched, (step) => run(id, step), { concurrency: "unbounded" })
    assert.deepStrictEqual(results, ["true 2 false", "true 2 false", "true 2 false", "client_archived"])
    const rows = yield* sql<{ readonly key: string; readonly transaction: string }>`
      SELECT key, xmin::text AS transaction FROM idempotency_keys WHERE project_id = ${id} ORDER BY key`
    assert.deepStrictEqual(
      rows.map(({ key }) => key),
      ["patch-ada", "patch-bob", "patch-cyd"]
    )
    assert.strictEqual(new Set(rows.map(({ transaction }) => transaction)).size, 1)
  })

  it.effect("take exactly the free places of their projects", function* () {
    for (const [count, capacity] of fc.sample(
      fc.tuple(fc.integer({ min: 1, max: 60 }), fc.integer({ min: 0, max: 40 })),
      25
    )) {
      const ids = yield* Effect.forEach([`full-${projects++}`, `full-${projects++}`], (id) => open(id, capacity))
      const results = yield* Effect.forEach(
        ids,
        (id) =>
          Effect.forEach(
            Array.from({ length: count }, (_, n) => ({ key: `create-${n}`, create: `client ${n}` })),
            (step) => run(id, step),
            { concurrency: "unbounded" }
          ),
        { concurrency: "unbounded" }
      )
      const free = Math.max(0, capacity - 3)
      for (const [index, id] of ids.entries()) {
        const created = results[index]?.filter((result) => result === "true 1 false").length
        assert.strictEqual(created, Math.min(count, free))
        assert.deepStrictEqual(yield* activeOf(id), {
          counted: 3 + Math.min(count, free),
          active: 3 + Math.min(count, free),
          capacity
        })
      }
    }
  })
})
