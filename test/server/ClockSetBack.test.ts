/** The service while the time of day of its host is set back: no duration grows with it. */
import { assert, it } from "../support/Vitest.ts"
import { Clock, Effect } from "effect"
import { open, receiver, serve } from "../integrations/deliveries/Deliveries.support.ts"
import { untilRows } from "../support/Waiting.ts"

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

it.live("a revoked key is refused, and a rate limit allows requests again, while the clock is set back", function* () {
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
})

it.live("the attempt of a delivery during which the clock is set back has its true duration", function* () {
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
})
