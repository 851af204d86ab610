/**
 * Keeps the deliveries of a process from falling behind the commands that it takes at the same time. Callers who send as fast as
 * they can would otherwise take almost all of the process: a turn of the event loop answers dozens of them, but continues only the
 * few deliveries that an endpoint may have in flight.
 *
 * While deliveries of a project are behind, a command of that project waits until deliveries have ended, in order of arrival and for at
 * most `heldAtMost`. A command that appends several deliveries counts as that many. So callers get their answers later, and none is
 * refused.
 */
import { Context, Effect, Layer } from "effect"

/** In milliseconds. */
const heldAtMost = 200

/** Number of commands that may run when a delivery has ended. With less than one, deliveries that are behind catch up. */
const commandsPerDelivery = 3 / 4

/** Commands that wait begin together, as many as wait or this number, so that they are still one group (`commands/Grouped.ts`). */
const together = 16

export interface Pace {
  /** Waits until a command of a project may run. */
  readonly waitForTurn: (projectId: string) => Effect.Effect<void>
  /** Notes that a command of a project, after its turn, has appended this many deliveries. */
  readonly appended: (projectId: string, deliveries: number) => void
  /** Notes that an attempt of a delivery has ended. */
  readonly ended: () => void
  /** Sets the projects whose deliveries are behind. */
  readonly setBehind: (projects: ReadonlySet<string>) => void
}

const never: Pace = { waitForTurn: () => Effect.void, appended: () => {}, ended: () => {}, setBehind: () => {} }

export const make = (): Pace => {
  let behind: ReadonlySet<string> = new Set()
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
    waitForTurn: (projectId) =>
      Effect.suspend(() => {
        if (!behind.has(projectId)) return Effect.void
        if (credit < 1 || waiting.length > 0) return wait
        credit--
        return Effect.void
      }),
    appended: (projectId, deliveries) => {
      if (behind.has(projectId)) credit -= deliveries - 1
    },
    ended: () => {
      if (behind.size === 0) return
      credit += commandsPerDelivery
      const count = Math.min(together, waiting.length)
      if (count > credit) return
      credit = Math.min(credit - count, together)
      release(count)
    },
    setBehind: (projects) => {
      if (projects.size === 0 || behind.size === 0) {
        credit = 0
        release(waiting.length)
      }
      behind = projects
    }
  }
}

/** Never lets a command wait, unless the process both takes commands and makes deliveries. */
export class DeliveryPace extends Context.Reference<Pace>("developer-api-service/work/DeliveryPace", {
  defaultValue: () => never
}) {
  static readonly layer = Layer.sync(DeliveryPace, make)
}
