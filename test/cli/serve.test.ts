/** `serve` runs the same service as `npm start`. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestDatabase } from "../support/TestDatabase.ts"
import { at, start } from "./Cli.support.ts"

layer(TestDatabase.layer, { excludeTestServices: true })("serve", (it) => {
  it.effect("serves until SIGTERM, then ends with 0", () =>
    Effect.gen(function* () {
      const { url } = yield* TestDatabase
      const { child, ended, stdout } = yield* start(["serve", "--role", "api"], { env: { ...at(url), PORT: "0" } })
      const ready = Effect.sync(() => /^listening on (http:\/\/127\.0\.0\.1:\d+)$/m.exec(stdout())?.[1])
      const base = yield* Effect.delay(ready, "25 millis").pipe(
        Effect.repeat({ until: (base) => base !== undefined || child.exitCode !== null })
      )
      const health = yield* Effect.promise(() => fetch(`${base}/healthz`))
      assert.strictEqual(health.status, 200)
      child.kill("SIGTERM")
      assert.strictEqual((yield* ended).status, 0)
    })
  )
})
