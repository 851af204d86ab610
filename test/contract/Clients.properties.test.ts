/** Random sequences of patches, compared with a model of contract §7. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import * as fc from "fast-check"
import { type ClientShape, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { forAll } from "../support/Properties.ts"
import { eventsOf, subscribe } from "../support/Events.ts"
import { TestServer } from "../support/TestServer.ts"
import { open } from "./Clients.support.ts"
import { previousOf } from "./Deals.events.support.ts"

/** A client without its id and its times, which the service chooses. */
type Model = Omit<ClientShape, "id" | "createdAt" | "updatedAt" | "archivedAt">

type Patch = Partial<Omit<Model, "version">>

const initial: Model = {
  displayName: "A",
  firstName: null,
  lastName: null,
  email: null,
  phone: null,
  tags: [],
  externalId: null,
  marketingConsent: false,
  suppressed: false,
  organizationId: null,
  responsibleMemberId: null,
  status: "active",
  version: 1
}

/** Applies a patch as contract §7 defines it. */
const apply = (
  client: Model,
  patch: Patch
): { readonly client: Model; readonly changed: boolean } | "client_archived" => {
  const activation = patch.status === "active" && Object.keys(patch).length === 1
  if (client.status === "archived" && !activation) return "client_archived"
  const next = { ...client, ...patch }
  const changed = JSON.stringify(next) !== JSON.stringify(client)
  return { client: { ...next, version: client.version + (changed ? 1 : 0) }, changed }
}

const goodString = (maxLength: number) =>
  fc
    .string({ unit: "binary", minLength: 1, maxLength })
    .filter((text) => text.isWellFormed() && !text.includes("\u0000"))

/** Few values, so that patches often repeat the current value. */
const few = (maxLength: number) => fc.oneof({ weight: 3, arbitrary: fc.constantFrom("A", "B") }, goodString(maxLength))
const maybe = <A>(arbitrary: fc.Arbitrary<A>) => fc.option(arbitrary, { nil: null })

const patches = fc
  .record(
    {
      displayName: few(160),
      firstName: maybe(few(100)),
      lastName: maybe(few(100)),
      email: maybe(fc.constantFrom("a@b.co", "A@b.co", "c@d.example")),
      phone: maybe(fc.constantFrom("+4912345", "+123456789012345")),
      tags: fc.uniqueArray(few(160), { maxLength: 4 }),
      externalId: maybe(few(100)),
      marketingConsent: fc.boolean(),
      suppressed: fc.boolean(),
      organizationId: maybe(fc.constantFrom("o1", "o2")),
      responsibleMemberId: maybe(fc.constantFrom("m1", "m2")),
      status: fc.constantFrom("active" as const, "archived" as const)
    },
    { requiredKeys: [] }
  )
  .filter((patch) => Object.keys(patch).length > 0)

/** Patches of one member are as likely as larger ones, so that archived clients are often reactivated. */
const anyPatch: fc.Arbitrary<Patch> = fc.oneof(
  patches,
  fc.constantFrom<Patch>({ status: "active" }, { status: "archived" }),
  patches.map((patch) => Object.fromEntries(Object.entries(patch).slice(0, 1)))
)

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a client that is patched", (it) => {
  it.effect("agrees with the model in record, version and changed", function* () {
    const { created, patch, projectId, read, server } = yield* open({
      project: { contactCapacity: 100_000 },
      organizations: [
        { id: "o1", name: "O" },
        { id: "o2", name: "O" }
      ],
      members: [
        { id: "m1", name: "M" },
        { id: "m2", name: "M" }
      ]
    })
    yield* subscribe(server.sql, projectId, "shop", ["crm.client.created.v1", "crm.client.updated.v1"])
    const run = (sequence: ReadonlyArray<Patch>) =>
      Effect.gen(function* () {
        const id = yield* created({ displayName: "A" })
        let model = initial
        let before = yield* read(id)
        const emitted: Array<object> = [{ type: "crm.client.created.v1", data: { client: before } }]
        for (const { externalId, ...others } of sequence) {
          // External ids are unique in the project, which all sequences share.
          const unique = typeof externalId === "string" ? `${id} ${externalId}` : externalId
          const change: Patch = unique === undefined ? others : { ...others, externalId: unique }
          const expected = apply(model, change)
          const answer = yield* patch(id, change)
          const after = yield* read(id)
          if (expected === "client_archived") {
            problemOf(answer, 409, "client_archived")
            assert.deepStrictEqual(after, before)
            continue
          }
          model = expected.client
          assert.deepStrictEqual(receiptOf(answer, 200), {
            resourceId: id,
            changed: expected.changed,
            version: model.version,
            replayed: false
          })
          if (!expected.changed) assert.deepStrictEqual(after, before)
          const { archivedAt, createdAt, id: _, updatedAt, ...record } = after
          assert.deepStrictEqual(record, { ...model, tags: [...model.tags] })
          assert.strictEqual(createdAt, before.createdAt)
          assert.isTrue(updatedAt >= before.updatedAt)
          assert.strictEqual(archivedAt !== null, model.status === "archived")
          if (expected.changed) {
            const data = { client: after, previous: previousOf(before, after) }
            emitted.push({ type: "crm.client.updated.v1", data })
          }
          before = after
        }
        const events = yield* eventsOf(server.sql, projectId)
        const own = events.filter(({ data }) => JSON.stringify(data).includes(id))
        assert.deepStrictEqual(
          own.map(({ data, type }) => ({ type, data })),
          emitted
        )
        yield* Effect.orDie(server.sql`TRUNCATE events, deliveries CASCADE`)
      })
    yield* forAll(fc.array(anyPatch, { minLength: 1, maxLength: 12 }), run, { numRuns: 40 })
  })
})
