/** The pace of a campaign by the clocks of a test: a provider answers after 5 ms, releases take no time or a long one (contract §9). */
import { assert, describe, it } from "../support/Vitest.ts"
import { Clock, Duration, Effect, Layer, Option, Redacted } from "effect"
import { TestClock } from "effect/testing"
import * as Runner from "../../src/campaigns/Runner.ts"
import { Calls } from "../../src/messaging/Calls.ts"
import { MessageLoop } from "../../src/messaging/MessageLoop.ts"
import { Supervisor } from "../../src/work/Supervisor.ts"
import { Worker } from "../../src/work/Worker.ts"
import { clients, DatabaseUrl } from "../../src/sql/Connections.ts"
import { worker } from "../integrations/deliveries/Due.support.ts"
import { databaseClock } from "../support/Claims.ts"
import { startServer } from "../support/TestServer.ts"
import { passUntil, untilLive } from "../support/Waiting.ts"
import { accepted, nowhere } from "./Runner.scene.support.ts"
import { campaignOf } from "./Runner.support.ts"

/** Milliseconds between two runs of the runner, when a release takes no time. */
const interval = 150
const answersAfter = 5

/** Runs a campaign for some seconds, each release of which takes `releaseTakes` milliseconds; returns the times of its sends. */
const sendsOf = Effect.fnUntraced(function* (sendsPerMinute: number, seconds: number, releaseTakes: number) {
  yield* TestClock.setTime(Date.UTC(2026, 10, 20, 10))
  const server = yield* startServer({}, "api")
  yield* campaignOf(server, { recipients: (sendsPerMinute / 60) * seconds, primary: nowhere, sendsPerMinute })
  const sends: Array<number> = []
  let runs = 0
  const calls = Calls.of({
    lease: Duration.minutes(1),
    make: (_, guard) => {
      const call = Effect.map(Clock.currentTimeMillis, (now) => sends.push(now)).pipe(
        Effect.andThen(Effect.sleep(answersAfter)),
        Effect.as(accepted)
      )
      return Effect.as(guard === undefined ? call : guard(call), Option.none())
    },
    lose: () => Effect.succeedNone,
    postpone: () => Effect.succeedNone,
    drain: Effect.void
  })
  const slow = Layer.effect(
    MessageLoop,
    Effect.map(MessageLoop, (loop) => ({
      ...loop,
      take: (source) =>
        loop.take(source).pipe(Effect.ensuring(Effect.sync(() => runs++)), Effect.tap(Effect.sleep(releaseTakes)))
    }))
  ).pipe(Layer.provide(MessageLoop.layer))
  yield* Runner.layer.pipe(
    Layer.provide(slow),
    Layer.provide(Layer.succeed(Calls, calls)),
    Layer.provide(Layer.succeed(Worker, worker)),
    Layer.provide(Supervisor.layer),
    Layer.provide(clients.workers),
    Layer.provide(Layer.succeed(DatabaseUrl, Redacted.make(server.databaseUrl))),
    Layer.provide(databaseClock),
    Layer.build
  )
  yield* passUntil(
    Effect.sync(() => runs),
    (count) => count > 0
  )
  // Each step lasts until the next run, so that a busy machine has all the time that it needs.
  for (let at = 0; at < 1_000 * seconds; at += interval + releaseTakes) {
    const before = runs
    yield* TestClock.adjust(interval + releaseTakes)
    yield* untilLive(() => runs > before)
  }
  return sends.map((at) => at - (sends[0] ?? 0))
})

describe("a campaign", () => {
  for (const [sendsPerMinute, seconds, what, releaseTakes] of [
    [60_000, 4, "60,000 sends a minute, the most that may be asked for", 0],
    [6_000, 8, "its pace though a release takes most of a second", 850]
  ] as const) {
    it.effect(`reaches ${what}, once the permits of its channel have doubled often enough`, function* () {
      const sends = yield* sendsOf(sendsPerMinute, seconds, releaseTakes)
      const counts = [seconds - 2, seconds - 1].map(
        (second) => sends.filter((at) => Math.floor(at / 1_000) === second).length
      )
      assert.deepStrictEqual(counts, [sendsPerMinute / 60, sendsPerMinute / 60])
    })
  }
})
