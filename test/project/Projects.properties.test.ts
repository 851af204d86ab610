/** Whatever a good file says, applying it again changes nothing. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { type File, projectRow, rowsOf, services } from "./Projects.support.ts"
import { Projects } from "../../src/project/Projects.ts"

const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: null })
const text = (maxLength: number) =>
  fc
    .string({ unit: "binary", minLength: 1, maxLength })
    .filter((value) => value.isWellFormed() && !value.includes("\u0000"))
const byId = { selector: ({ id }: { readonly id: string }) => id, maxLength: 6 }

/** Every member but the required ones may be absent. */
const record = <T, K extends keyof T>(members: { [P in keyof T]: fc.Arbitrary<T[P]> }, requiredKeys: Array<K>) =>
  fc.record(members, { requiredKeys })

const limit = fc.record({ limit: fc.integer({ min: 1, max: 999 }), windowSeconds: fc.integer({ min: 1, max: 999 }) })

const file: fc.Arbitrary<File> = fc
  .record({
    members: fc.uniqueArray(
      record({ id: text(160), name: text(160), email: maybe(fc.constant("m@example.com")), active: fc.boolean() }, [
        "id",
        "name"
      ]),
      byId
    ),
    organizations: fc.uniqueArray(
      record({ id: text(160), name: text(160), archived: fc.boolean() }, ["id", "name"]),
      byId
    )
  })
  .chain(({ members, organizations }) =>
    fc.record({
      project: record(
        {
          id: fc.constant("generated"),
          name: text(160),
          timeZone: fc.constantFrom("UTC", "Europe/Berlin", "asia/tokyo"),
          contactCapacity: maybe(fc.nat(5)),
          modules: fc.subarray(["crm", "messaging", "campaigns", "integrations", "tickets"] as const),
          entitlements: fc.uniqueArray(text(160), { maxLength: 3 }),
          rateLimits: record({ read: limit, write: limit, messages: limit }, [])
        },
        ["id", "name"]
      ),
      members: fc.constant(members),
      organizations: fc.constant(organizations),
      clients: fc.uniqueArray(
        record(
          {
            id: text(160),
            displayName: text(160),
            firstName: maybe(text(100)),
            lastName: maybe(text(100)),
            email: maybe(fc.constant("c@example.com")),
            phone: maybe(fc.constant("+4915112345678")),
            tags: fc.uniqueArray(text(160), { maxLength: 4 }),
            externalId: maybe(text(160)),
            status: fc.constantFrom("active", "archived"),
            organizationId: fc.constantFrom(null, ...organizations.map(({ id }) => id)),
            responsibleMemberId: fc.constantFrom(null, ...members.map(({ id }) => id)),
            createdAt: fc
              .date({
                min: new Date("0001-01-02T00:00:00Z"),
                max: new Date("9999-12-30T00:00:00Z"),
                noInvalidDate: true
              })
              .map((date) => date.toISOString().replace("Z", "+05:30"))
          },
          ["id", "displayName"]
        ),
        byId
      )
    })
  )

const state = Effect.gen(function* () {
  const rows = [yield* rowsOf("members", "generated"), yield* rowsOf("organizations", "generated")]
  return [yield* projectRow("generated"), ...rows, yield* rowsOf("clients", "generated")]
})

layer(services)("a good file", (it) => {
  // One project takes all files in turn, so most of them meet records that an earlier one left.
  it.effect("changes nothing when it is applied again", () =>
    Effect.gen(function* () {
      const { apply } = yield* Projects
      for (const generated of fc.sample(file, 150)) {
        const json = JSON.stringify(generated)
        const first = yield* apply(json)
        const before = yield* state
        const second = yield* apply(json)
        const nothing = { project: 0, members: 0, organizations: 0, clients: 0 }
        assert.deepStrictEqual([second.created, second.updated], [nothing, nothing], json)
        for (const [part, count] of Object.entries(second.unchanged)) {
          const touched = [first.created, first.updated, first.unchanged].reduce((sum, of) => sum + (of[part] ?? 0), 0)
          assert.strictEqual(count, touched, json)
        }
        assert.deepStrictEqual(yield* state, before, json)
      }
    })
  )
})
