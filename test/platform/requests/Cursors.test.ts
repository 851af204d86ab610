import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Redacted } from "effect"
import fc from "fast-check"
import { createHash, randomBytes } from "node:crypto"
import { ProjectId } from "../../../src/api/schema/Ids.ts"
import { Cursors, type List, type Position } from "../../../src/platform/requests/Cursors.ts"
import { SecretKey } from "../../../src/platform/secrets/SecretKey.ts"

const secret = randomBytes(32).toString("base64")
const cursors = (key = secret, ...previous: ReadonlyArray<string>) => {
  const older = previous.map((key) => Redacted.make(key))
  return Cursors.layer.pipe(Layer.provide(Layer.succeed(SecretKey, SecretKey.make(Redacted.make(key), older))))
}

const run = <A, E>(effect: Effect.Effect<A, E, Cursors>, ...keys: ReadonlyArray<string>) =>
  Effect.runSyncExit(Effect.provide(effect, cursors(...keys)))

const encode = (list: List, position: Position) => {
  const exit = run(Effect.map(Cursors, (cursors) => cursors.encode(list, position)))
  return Exit.isSuccess(exit) ? exit.value : assert.fail("no cursor")
}
const decode = (list: List, cursor: string, ...keys: ReadonlyArray<string>) =>
  run(
    Effect.flatMap(Cursors, (cursors) => cursors.decode(list, cursor)),
    ...keys
  )

const list: fc.Arbitrary<List> = fc.record({
  projectId: fc.string({ minLength: 1, maxLength: 160 }).map((id) => ProjectId.make(id)),
  operation: fc.constantFrom("listClients", "listDeals"),
  filters: fc.dictionary(fc.string(), fc.string(), { maxKeys: 3 })
})

const position: fc.Arbitrary<Position> = fc.record({
  createdAt: fc.date({
    min: new Date("0001-01-01T00:00:00Z"),
    max: new Date("9999-12-31T23:59:59.999Z"),
    noInvalidDate: true
  }),
  id: fc
    .oneof(
      fc.string({ unit: "binary", minLength: 1, maxLength: 160 }),
      fc.string({ unit: "binary", minLength: 90, maxLength: 160, size: "max" })
    )
    .filter((id) => id.isWellFormed())
})

/** Returns the first characters of a text, of at most so many bytes. */
const startOf = (text: string, bytes: number) => {
  const characters = [...text]
  while (Buffer.byteLength(characters.join("")) > bytes) characters.pop()
  return characters.join("")
}

describe("cursors", () => {
  it("decode to the position they encode", () => {
    fc.assert(
      fc.property(list, position, (list, position) => {
        const { createdAt, id } = position
        const idDigest = createHash("sha256").update(id).digest()
        const place = Buffer.byteLength(id) <= 361 ? position : { createdAt, idStart: startOf(id, 329), idDigest }
        assert.deepStrictEqual(decode(list, encode(list, position)), Exit.succeed(place))
      })
    )
  })

  it("are URL-safe and at most 512 characters for any id", () => {
    fc.assert(
      fc.property(list, position, (list, position) => {
        assert.match(encode(list, position), /^[A-Za-z0-9_-]{1,512}$/)
        assert.match(encode(list, { ...position, id: "\u{1f98a}".repeat(160) }), /^[A-Za-z0-9_-]{1,512}$/)
        assert.match(encode(list, { ...position, id: "x".repeat(361) }), /^[A-Za-z0-9_-]{512}$/)
      })
    )
  })

  it("are refused when altered or cut anywhere, and so is any other text", () => {
    fc.assert(fc.property(list, fc.string({ maxLength: 512 }), (list, text) => Exit.isFailure(decode(list, text))))
    fc.assert(
      fc.property(list, position, fc.nat(), fc.constantFrom(..."ABCabc012-_"), (list, position, at, character) => {
        const cursor = encode(list, position)
        const i = at % cursor.length
        const altered = cursor.slice(0, i) + character + cursor.slice(i + 1)
        fc.pre(altered !== cursor)
        assert.isTrue(Exit.isFailure(decode(list, altered)))
        assert.isTrue(Exit.isFailure(decode(list, cursor.slice(0, i))))
        assert.isTrue(Exit.isFailure(decode(list, `${cursor}${character}`)))
      })
    )
  })

  it("are refused for another project, operation or filter, and under another key", () => {
    fc.assert(
      fc.property(list, list, position, (list, other, position) => {
        fc.pre(JSON.stringify(list) !== JSON.stringify(other))
        const cursor = encode(list, position)
        assert.isTrue(Exit.isFailure(decode(other, cursor)))
        assert.isTrue(Exit.isFailure(decode(list, cursor, randomBytes(32).toString("base64"))))
      })
    )
  })

  it("are taken where their key is a previous one, and are made under the current key", () => {
    const [next, other] = [randomBytes(32).toString("base64"), randomBytes(32).toString("base64")]
    fc.assert(
      fc.property(list, position, (list, position) => {
        const old = encode(list, position)
        assert.isTrue(Exit.isSuccess(decode(list, old, next, other, secret)))
        const fresh = run(
          Effect.map(Cursors, (cursors) => cursors.encode(list, position)),
          next,
          secret
        )
        const cursor = Exit.isSuccess(fresh) ? fresh.value : assert.fail("no cursor")
        assert.isTrue(Exit.isSuccess(decode(list, cursor, next)))
        assert.isTrue(Exit.isFailure(decode(list, cursor, secret)))
      }),
      { numRuns: 30 }
    )
  })
})
