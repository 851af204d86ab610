/**
 * Slots for attempts in flight in one process. Hanging and failing endpoints hold no more than a stated share:
 *
 * - `healthySlots`: attempts to endpoints in good health, for as long as they are younger than `agedAfter`.
 * - `agedSlots`: the same attempts from then on. They give their slot back to the first pool, so endpoints that hang
 *   without ever having failed keep the others waiting for no longer than `agedAfter`.
 * - `suspectSlots`: attempts to suspect endpoints, which have failed three times in a row or timed out once. These may
 *   have one attempt in flight each (see the claim).
 *
 * An attempt that waits for its answer costs a connection and a timer, so there may be many.
 */
export const healthySlots = 512
export const agedSlots = 1_024
export const suspectSlots = 512

/** Age, in milliseconds, from which an attempt counts as one of an endpoint that hangs. */
export const agedAfter = 250

export interface Slot {
  readonly suspect: boolean
  readonly startedAt: number
  pool: "healthy" | "aged" | "suspect" | "none"
}

export interface Slots {
  /** Takes a slot. `now` is monotonic, in milliseconds. */
  readonly take: (suspect: boolean, now: number) => Slot
  readonly release: (slot: Slot) => void
  /** Returns how many more attempts may start; never less than 0. */
  readonly free: (now: number) => { readonly healthy: number; readonly suspect: number }
  readonly used: () => number
}

export const make = (): Slots => {
  const used = { healthy: 0, aged: 0, suspect: 0, none: 0 }
  /** Slots of the healthy pool in the order of their start, from `head` on. Released ones are skipped. */
  let young: Array<Slot> = []
  let head = 0

  const move = (slot: Slot, pool: Slot["pool"]) => {
    used[slot.pool]--
    used[pool]++
    slot.pool = pool
  }

  const age = (now: number) => {
    for (let slot = young[head]; slot !== undefined; slot = young[++head]) {
      if (slot.pool !== "healthy") continue
      if (now - slot.startedAt < agedAfter || used.aged >= agedSlots) break
      move(slot, "aged")
    }
    if (head > 1_024) {
      young = young.slice(head)
      head = 0
    }
  }

  return {
    take: (suspect, startedAt) => {
      const slot: Slot = { suspect, startedAt, pool: suspect ? "suspect" : "healthy" }
      used[slot.pool]++
      if (!suspect) young.push(slot)
      return slot
    },
    release: (slot) => move(slot, "none"),
    free: (now) => {
      age(now)
      return {
        healthy: Math.max(0, healthySlots - used.healthy),
        suspect: Math.max(0, suspectSlots - used.suspect)
      }
    },
    used: () => used.healthy + used.aged + used.suspect
  }
}
