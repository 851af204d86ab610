/** The service while the time of day of its host is set back: no duration grows with it. */
import { assert, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { healthySlots } from "../../src/integrations/Deliveries/Slots.ts"
import { open, receiver, serve } from "../integrations/Deliveries.support.ts"
import { until, untilRows } from "../support/Waiting.ts"

const hour = 3_600_000

/** A clock that `setBack` sets back by an hour. */
const settable = Effect.map(Clock.Clock, (clock) => {
  let back = 0
  const millis = () => clock.currentTimeMillisUnsafe() - back
  const nanos = () => clock.currentTimeNanosUnsafe() - BigInt(back) * 1_000_000n
  const own: Clock.Clock = {
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
    monotonicTimeNanos: clock.monotonicTimeNanos,
    sleep: (duration) => clock.sleep(duration)
  }
  return { clock: own, setBack: () => void (back += hour) }
})

it.live("a revoked key is refused, and a rate limit allows requests again, while the clock is set back", () =>
  Effect.gen(function* () {
    const { clock, setBack } = yield* settable
    yield* Effect.gen(function* () {
      const server = yield* serve()
      const limited = yield* server.seed({ project: { rateLimits: { read: { limit: 1, windowSeconds: 1 } } } })
      const revoked = yield* server.seed()
      const read = ({ token }: { readonly token: string }) =>
        Effect.map(server.send({ path: "/api/v1/developer/crm/clients", token }), ({ status }) => status)
      assert.deepStrictEqual([yield* read(limited), yield* read(revoked)], [200, 200])
      setBack()
      yield* server.revoke(revoked.token)
      yield* untilRows(read(revoked), (status) => status === 401)
      yield* untilRows(read(limited), (status) => status === 200)
    }).pipe(Effect.provideService(Clock.Clock, clock))
  }).pipe(Effect.scoped)
)

it.live("the attempt of a delivery during which the clock is set back has its true duration", () =>
  Effect.gen(function* () {
    const { clock, setBack } = yield* settable
    yield* Effect.gen(function* () {
      const project = yield* open(yield* serve())
      const to = yield* receiver(({ response }) => {
        setBack()
        response.end()
      })
      yield* project.subscribe("shop", to.url)
      yield* project.created()
      yield* project.finished
      const [delivery] = yield* project.deliveries()
      const { durationMs, finishedAt, startedAt } = delivery?.log[0] ?? assert.fail("no attempt")
      assert.isAtLeast(durationMs ?? -1, 0)
      assert.strictEqual(Date.parse(finishedAt) - Date.parse(startedAt), durationMs)
    }).pipe(Effect.provideService(Clock.Clock, clock))
  }).pipe(Effect.scoped)
)

it.live("attempts that hang while the clock is set back give their slots to the deliveries of others", () =>
  Effect.gen(function* () {
    const { clock, setBack } = yield* settable
    yield* Effect.gen(function* () {
      const server = yield* serve({ WEBHOOK_ENDPOINT_CONCURRENCY: "8", WEBHOOK_TIMEOUT: "60s" })
      const names = Array.from({ length: healthySlots / 8 }, (_, n) => `stuck${n}`)
      const [project, neighbour] = [yield* open(server, names), yield* open(server)]
      // The clock is set back before any attempt is old enough to give its slot back.
      const [stuck, healthy] = [yield* receiver(setBack), yield* receiver()]
      for (const name of names) yield* project.subscribe(name, stuck.url)
      for (let n = 0; n < 8; n++) yield* project.created()
      yield* until(() => stuck.open() === healthySlots)
      yield* neighbour.subscribe("shop", healthy.url)
      yield* neighbour.created()
      yield* until(() => healthy.hits.length === 1)
    }).pipe(Effect.provideService(Clock.Clock, clock))
  }).pipe(Effect.scoped)
)
