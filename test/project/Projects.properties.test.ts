/** Whatever a file says: applied again it changes nothing, and refused it changes nothing at all. */
import { assert, layer } from "@effect/vitest"
import { Effect, Result } from "effect"
import * as fc from "fast-check"
import { Projects } from "../../src/project/Projects.ts"
import { file } from "./Files.support.ts"
import { services, stateOf } from "./Projects.support.ts"

layer(services)("any project file", (it) => {
  // One project takes all files in turn, so most of them meet records that an earlier one left.
  it.effect("changes nothing when it is applied again, or refused", () =>
    Effect.gen(function* () {
      const { apply } = yield* Projects
      let applied = 0
      for (const generated of fc.sample(file, 60)) {
        const json = JSON.stringify(generated)
        const before = yield* stateOf("generated")
        const first = yield* Effect.result(apply(json))
        const after = yield* stateOf("generated")
        if (Result.isFailure(first)) {
          assert.deepStrictEqual(after, before, json)
          continue
        }
        const second = yield* apply(json)
        const { created, unchanged, updated } = first.success
        const nothing = Object.fromEntries(Object.keys(created).map((part) => [part, 0]))
        assert.deepStrictEqual([second.created, second.updated], [nothing, nothing], json)
        for (const [part, count] of Object.entries(second.unchanged)) {
          const touched = [created, updated, unchanged].reduce((sum, of) => sum + (of[part] ?? 0), 0)
          assert.strictEqual(count, touched, json)
        }
        assert.deepStrictEqual(yield* stateOf("generated"), after, json)
        applied++
      }
      assert.isAbove(applied, 15)
    })
  )
})
