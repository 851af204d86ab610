/**
 * Slots for attempts in flight in one process. Projects share them.
 *
 * There are two pools: one for attempts to healthy endpoints, one for attempts to suspect endpoints (with recent failures). A
 * project may take a slot of a pool while it holds fewer than `factor` times the number of free slots. So a single project holds
 * at most three quarters of a pool, and another project finds free slots at once, even if the attempts in flight take long. If
 * several projects want more slots than there are, each soon holds the same number, and some slots stay free.
 *
 * A slot is cheap: an attempt that waits for its answer costs a connection and a timer.
 */
import type { ProjectId } from "../../../api/schema/Ids.ts"

export const pools = ["healthy", "suspect"] as const
export type Pool = (typeof pools)[number]

export const sizes: Readonly<Record<Pool, number>> = { healthy: 2_048, suspect: 768 }

const factor = 3

export interface Room {
  readonly free: number
  /** Number of slots that a project without slots may take. */
  readonly newcomer: number
  /** Number of slots that each project with slots may still take. */
  readonly holders: ReadonlyArray<{ readonly projectId: ProjectId; readonly room: number }>
}

export type Rooms = Readonly<Record<Pool, Room>>

interface Holder {
  readonly projectId: ProjectId
  readonly suspect: boolean
}

export interface Slots {
  readonly take: (holder: Holder) => void
  readonly release: (holder: Holder) => void
  readonly rooms: () => Rooms
}

export const make = (): Slots => {
  const held: Readonly<Record<Pool, Map<ProjectId, number>>> = { healthy: new Map(), suspect: new Map() }
  const free = { ...sizes }

  const change = ({ projectId, suspect }: Holder, by: 1 | -1) => {
    const pool = suspect ? "suspect" : "healthy"
    const count = (held[pool].get(projectId) ?? 0) + by
    free[pool] -= by
    if (count === 0) held[pool].delete(projectId)
    else held[pool].set(projectId, count)
  }

  const roomOf = (pool: Pool): Room => {
    /**
     * Returns how many more slots a project with `count` slots may take. The rule of `factor` is applied again after each slot.
     */
    const room = (count: number) =>
      Math.max(0, Math.min(free[pool], Math.ceil((factor * free[pool] - count) / (factor + 1))))
    return {
      free: Math.max(0, free[pool]),
      newcomer: room(0),
      holders: Array.from(held[pool], ([projectId, count]) => ({ projectId, room: room(count) }))
    }
  }

  return {
    take: (holder) => change(holder, 1),
    release: (holder) => change(holder, -1),
    rooms: () => ({ healthy: roomOf("healthy"), suspect: roomOf("suspect") })
  }
}
