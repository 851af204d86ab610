/**
 * Keeps the deliveries of a process from falling behind the commands that it takes at the same time. Callers who send as fast as
 * they can would otherwise take almost all of the process: a turn of the event loop answers dozens of them, but continues only the
 * few deliveries that an endpoint may have in flight.
 *
 * While deliveries are behind, a command waits until deliveries have ended, in order of arrival and for at most `heldAtMost`. A
 * command that appends several deliveries counts as that many. So callers get their answers later, and none is refused.
 */
import { Context, Effect, Layer } from "effect"

/** In milliseconds. */
const heldAtMost = 200

/** Number of commands that may run when a delivery has ended. With less than one, deliveries that are behind catch up. */
const commandsPerDelivery = 3 / 4

/** Commands that wait begin together, as many as wait or this number, so that they are still one group (`commands/Grouped.ts`). */
const together = 16

export interface Pace {
  /** Waits until a command may run. */
  readonly turn: Effect.Effect<void>
  /** A command that has had its turn has appended this many deliveries. */
  readonly appended: (deliveries: number) => void
  /** An attempt of a delivery has ended. */
  readonly ended: () => void
  /** Tells whether deliveries are behind. */
  readonly setBehind: (isBehind: boolean) => void
}

const never: Pace = { turn: Effect.void, appended: () => {}, ended: () => {}, setBehind: () => {} }

export const make = (): Pace => {
  let isBehind = false
  let credit = 0
  const waiting: Array<() => void> = []

  const release = (count: number) => {
    for (const resume of waiting.splice(0, count)) resume()
  }
  const wait = Effect.callback<void>((resume) => {
    const begin = () => {
      clearTimeout(timer)
      resume(Effect.void)
    }
    const leave = () => {
      const at = waiting.indexOf(begin)
      if (at >= 0) waiting.splice(at, 1)
      begin()
    }
    const timer = setTimeout(leave, heldAtMost)
    waiting.push(begin)
    return Effect.sync(leave)
  })

  return {
    turn: Effect.suspend(() => {
      if (!isBehind) return Effect.void
      if (credit < 1 || waiting.length > 0) return wait
      credit--
      return Effect.void
    }),
    appended: (deliveries) => {
      if (isBehind) credit -= deliveries - 1
    },
    ended: () => {
      if (!isBehind) return
      credit += commandsPerDelivery
      const count = Math.min(together, waiting.length)
      if (count > credit) return
      credit = Math.min(credit - count, together)
      release(count)
    },
    setBehind: (value) => {
      if (value === isBehind) return
      isBehind = value
      credit = 0
      release(waiting.length)
    }
  }
}

/** Never lets a command wait, unless the process both takes commands and makes deliveries. */
export class DeliveryPace extends Context.Reference<Pace>("developer-api/work/DeliveryPace", {
  defaultValue: () => never
}) {
  static readonly layer = Layer.sync(DeliveryPace, make)
}
