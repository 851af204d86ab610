/** Requests in flight, and whether the server accepts new ones (contract §15). */
import { Context, Effect, Latch, Layer } from "effect"

export class Drain extends Context.Service<
  Drain,
  {
    readonly draining: () => boolean
    /** Counts a request as in flight until the returned function is called. */
    readonly enter: () => () => void
    /** Stops accepting requests, and waits until the requests in flight are answered. */
    readonly drain: Effect.Effect<void>
  }
>()("developer-api/http/edge/Drain") {
  static readonly layer = Layer.sync(Drain, () => {
    let inFlight = 0
    let draining = false
    const idle = Latch.makeUnsafe(true)
    return {
      draining: () => draining,
      enter: () => {
        inFlight++
        idle.closeUnsafe()
        return () => {
          inFlight--
          if (inFlight === 0) idle.openUnsafe()
        }
      },
      drain: Effect.suspend(() => {
        draining = true
        return idle.await
      })
    }
  })
}
