/** Lines of the log about what fails many times a second. */
import { assert, it } from "../support/Vitest.ts"
import { Effect, Logger, References } from "effect"
import { logOften } from "../../src/telemetry/Logging.ts"

it.live(
  "a failure that occurs many times a second has 50 lines at once, and then one a second with what was left out",
  function* () {
    const lines: Array<unknown> = []
    const logger = Logger.make<unknown, void>(({ fiber }) => {
      lines.push(fiber.getRef(References.CurrentLogAnnotations)["left_out"])
    })
    const failed = logOften("What fails here", new Error("connect ECONNREFUSED")).pipe(
      Effect.provide(Logger.layer([logger]))
    )
    for (let time = 0; time < 500; time++) yield* failed
    assert.deepStrictEqual(lines, Array.from({ length: 50 }))
    yield* Effect.sleep(1_100)
    yield* failed
    yield* failed
    assert.deepStrictEqual(lines.slice(50), [450])
  }
)
