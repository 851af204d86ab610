/** Cursors where `SECRET_KEY` is replaced. `contract/Walk.pages` tests what a cursor is bound to, and where it leads. */
import { assert, it } from "@effect/vitest"
import { Effect, Exit, Layer, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { ProjectId } from "../../../src/api/schema/Ids.ts"
import { makeCursors } from "../../../src/http/pages/Cursors.ts"
import { SecretKey } from "../../../src/secrets/SecretBox.ts"

const newKey = () => randomBytes(32).toString("base64")
const list = { projectId: ProjectId.make("p"), operation: "listClients", filters: {} }
const position = { at: new Date(0), id: "cli_1" }

/** Returns the cursors of a process with these keys, the current one first. */
const cursorsOf = (key: string, ...previous: ReadonlyArray<string>) => {
  const older = previous.map((key) => Redacted.make(key))
  const keys = Layer.succeed(SecretKey, SecretKey.make(Redacted.make(key), older))
  return Effect.runSync(Effect.provide(makeCursors, keys))
}

it("cursors are taken where their key is a previous one, and are made under the current key", () => {
  const [old, next, other] = [newKey(), newKey(), newKey()]
  const decoded = (cursor: string, ...keys: Parameters<typeof cursorsOf>) =>
    Effect.runSyncExit(cursorsOf(...keys).decode(list, cursor))
  const former = cursorsOf(old).encode(list, position)
  assert.deepStrictEqual(decoded(former, next, other, old), Exit.succeed(position))
  const fresh = cursorsOf(next, old).encode(list, position)
  assert.deepStrictEqual(decoded(fresh, next), Exit.succeed(position))
  assert.isTrue(Exit.isFailure(decoded(fresh, old)))
})
