/** Campaigns: what each command does (contract §9). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { TestServer } from "../support/TestServer.ts"
import { open, otherRoute, route } from "./Campaigns.support.ts"

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("campaigns", (it) => {
  it.effect("are composed, scheduled, paused, resumed and cancelled", () =>
    Effect.gen(function* () {
      const { audience, done, freeze, read } = yield* open()
      assert.deepStrictEqual(yield* audience("spring"), { audience: null, version: 1 })
      yield* done("spring", { operation: "set_primary_route", ...route })
      yield* done("spring", { operation: "set_fallback_route", ...otherRoute })
      console.log(yield* freeze("spring"))
      console.log(yield* audience("spring"))
      console.log(
        yield* done("spring", { operation: "schedule", scheduledForLocal: "2999-01-01T10:00", sendsPerMinute: 5 })
      )
      console.log(yield* done("spring", { operation: "pause" }))
      console.log(yield* done("spring", { operation: "resume" }))
      console.log(yield* done("spring", { operation: "duplicate" }))
      console.log(yield* done("spring", { operation: "cancel" }))
      console.log(yield* read("spring"))
      console.log(yield* done("spring", { operation: "delete", expectedVersion: 8 }))
    })
  )
})
