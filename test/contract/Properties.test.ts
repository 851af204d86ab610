/** Whatever is sent: no failure of the server, no error that is no problem, and clients that are what a model says. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fc from "fast-check"
import { clientOf, codeOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { TestServer } from "../support/TestServer.ts"
import { clientPath, open, path } from "./Clients.support.ts"
import { newKey } from "./Requests.ts"

/** Checks a property whose predicate is an effect. */
const check = <A>(
  arbitrary: fc.Arbitrary<A>,
  predicate: (value: A) => Effect.Effect<unknown>,
  parameters: fc.Parameters<[A]> = {}
) =>
  Effect.promise(() =>
    fc.assert(
      fc.asyncProperty(arbitrary, (value) => Effect.runPromise(Effect.asVoid(predicate(value)))),
      parameters
    )
  )

/** Holds an answer to be a success of some kind, or a problem that the caller caused. */
const assertSound = (answer: Answer, success: number) => {
  assert.isBelow(answer.status, 500, answer.text)
  if (answer.status !== success) problemOf(answer, answer.status, String(codeOf(answer)))
}

const anyString = fc.string({ unit: "binary", maxLength: 170 })
const goodString = (maxLength: number) =>
  fc
    .string({ unit: "binary", minLength: 1, maxLength })
    .filter((text) => text.isWellFormed() && !text.includes("\u0000"))

const names = [
  "displayName",
  "firstName",
  "lastName",
  "email",
  "phone",
  "tags",
  "externalId",
  "status",
  "organizationId",
  "responsibleMemberId",
  "id",
  "version",
  "__proto__",
  "constructor",
  "toString"
]

const anyJson = fc.jsonValue({ stringUnit: "binary", maxDepth: 3 })

/** Bodies that look like a client, with anything anywhere; as text, for `__proto__` to be a member like any other. */
const anyBody = fc
  .array(
    fc.tuple(
      fc.oneof({ weight: 5, arbitrary: fc.constantFrom(...names) }, fc.string({ unit: "binary", maxLength: 9 })),
      fc.oneof(
        fc.constantFrom<unknown>(null, "", "a@b.co", "+4912345", "A", [], ["a"], "active", "archived", 1e308, -0, {}),
        anyString,
        fc.array(anyString, { maxLength: 3 }),
        anyJson
      )
    ),
    { maxLength: 8 }
  )
  .map((members) => `{${members.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join(",")}}`)

/** Pieces of a query, most of them almost good. Characters that no HTTP client could send are left out. */
const anyQuery = fc
  .array(
    fc.tuple(
      fc.oneof(
        {
          weight: 5,
          arbitrary: fc.constantFrom("limit", "cursor", "status", "%6cimit", "Limit", "__proto__", "limit[]")
        },
        fc.string({ unit: "grapheme-ascii", maxLength: 5 })
      ),
      fc.constantFrom("=", "=", "=", "", "==", "%3D"),
      fc.oneof(
        fc.constantFrom(
          "1",
          "100",
          "0",
          "-1",
          "active",
          "all",
          "",
          "+",
          "%",
          "%00",
          "%ED%A0%80",
          "%F0%9F%98%80",
          "%zz",
          "1%"
        ),
        fc.string({ unit: "grapheme-ascii", maxLength: 20 }),
        anyString.filter((text) => text.isWellFormed()).map(encodeURIComponent)
      )
    ),
    { maxLength: 5 }
  )
  .chain((pairs) =>
    fc.constantFrom("&", "&", ";", "&&", "?", "#").map((separator) =>
      pairs
        .map((pair) => pair.join(""))
        .join(separator)
        .replace(/[^\x21-\x7e]/g, "%20")
    )
  )

layer(TestServer.layer(), { excludeTestServices: true })("any request", (it) => {
  it.effect("with any query of a list is answered or refused as the contract says", () =>
    Effect.gen(function* () {
      const { server, token } = yield* open({ clients: [{ id: "a", displayName: "A" }] })
      yield* check(
        anyQuery,
        (query) => Effect.map(server.send({ path: `${path}?${query}`, token }), (answer) => assertSound(answer, 200)),
        { numRuns: 400 }
      )
    })
  )

  it.effect("with any id is answered or refused as the contract says", () =>
    Effect.gen(function* () {
      const { server, token } = yield* open()
      const segment = fc.oneof(
        anyString.filter((text) => text.isWellFormed()).map(encodeURIComponent),
        fc.string({ unit: "grapheme-ascii", maxLength: 20 }).map((text) => text.replace(/[^\x21-\x7e]/g, "%20"))
      )
      yield* check(
        segment,
        (segment) =>
          Effect.map(server.send({ path: `${path}/${segment}`, token }), (answer) => assertSound(answer, 200)),
        { numRuns: 200 }
      )
    })
  )

  it.effect("with any body of a create is answered or refused as the contract says", () =>
    Effect.gen(function* () {
      const { server, token } = yield* open()
      yield* check(
        fc.oneof(
          { weight: 4, arbitrary: anyBody },
          anyJson.map((value) => JSON.stringify(value)),
          anyString
        ),
        (body) =>
          Effect.gen(function* () {
            const headers = { "content-type": "application/json" }
            const answer = yield* server.send({ method: "POST", path, token, key: newKey(), headers, body })
            assertSound(answer, 201)
            if (answer.status !== 201) return
            // What was taken is what is there.
            const client = clientOf(yield* server.send({ path: clientPath(receiptOf(answer, 201).resourceId), token }))
            assert.deepInclude(client, JSON.parse(body))
          }),
        { numRuns: 400 }
      )
    })
  )

  it.effect("with any bytes as a body is answered or refused as the contract says", () =>
    Effect.gen(function* () {
      const { server, token } = yield* open()
      const good = Buffer.from('{"displayName":"Adä 😀 \\u00e4"}')
      const damaged = fc
        .tuple(fc.nat(good.length - 1), fc.uint8Array({ minLength: 1, maxLength: 3 }))
        .map(([at, bytes]) => {
          const body = Buffer.from(good)
          body.set(bytes.subarray(0, good.length - at), at)
          return body
        })
      yield* check(
        damaged,
        (body) =>
          Effect.gen(function* () {
            const headers = { "content-type": "application/json" }
            const answer = yield* server.send({ method: "POST", path, token, key: newKey(), headers, body })
            assertSound(answer, 201)
          }),
        { numRuns: 200 }
      )
    })
  )
})

interface Model {
  readonly displayName: string
  readonly firstName: string | null
  readonly lastName: string | null
  readonly email: string | null
  readonly phone: string | null
  readonly tags: ReadonlyArray<string>
  readonly externalId: string | null
  readonly organizationId: string | null
  readonly responsibleMemberId: string | null
  readonly status: "active" | "archived"
  readonly version: number
}

type Patch = Partial<Omit<Model, "version">>

const initial: Model = {
  displayName: "A",
  firstName: null,
  lastName: null,
  email: null,
  phone: null,
  tags: [],
  externalId: null,
  organizationId: null,
  responsibleMemberId: null,
  status: "active",
  version: 1
}

/** What contract §7 says of a patch. */
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

/** Few values, so that patches often say what is there already. */
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
      externalId: maybe(few(160)),
      organizationId: maybe(fc.constantFrom("o1", "o2")),
      responsibleMemberId: maybe(fc.constantFrom("m1", "m2")),
      status: fc.constantFrom("active" as const, "archived" as const)
    },
    { requiredKeys: [] }
  )
  .filter((patch) => Object.keys(patch).length > 0)

/** Patches of one member each are as likely as larger ones, for an archived client to come back. */
const anyPatch: fc.Arbitrary<Patch> = fc.oneof(
  patches,
  fc.constantFrom<Patch>({ status: "active" }, { status: "archived" }),
  patches.map((patch) => Object.fromEntries(Object.entries(patch).slice(0, 1)))
)

layer(TestServer.layer(), { excludeTestServices: true })("a client that is patched", (it) => {
  it.effect("agrees with the model in record, version and changed", () =>
    Effect.gen(function* () {
      const { created, patch, read } = yield* open({
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
      yield* check(
        fc.array(anyPatch, { minLength: 1, maxLength: 12 }),
        (sequence) =>
          Effect.gen(function* () {
            const id = yield* created({ displayName: "A" })
            let model = initial
            let before = yield* read(id)
            for (const change of sequence) {
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
              before = after
            }
          }),
        { numRuns: 40 }
      )
    })
  )
})
