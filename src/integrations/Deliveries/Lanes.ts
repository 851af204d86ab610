/**
 * A lane for each endpoint with leases of this process: it sends as many at a time as the endpoint's concurrency, and the
 * next when one has ended. An endpoint that answers quickly has more claimed ahead, so that it does not wait for a claim
 * between two deliveries.
 */
import type { Claim, Endpoint, Named } from "./Claim.ts"

/** Time, in milliseconds, after which what waits is returned and claimed anew: its webhook may have changed. */
const waitsAtMost = 1_000
/** Time, in milliseconds, within which an endpoint answers that has deliveries claimed ahead. */
const quick = 50
/** Time, in milliseconds, after such an answer for which an endpoint counts as quick. */
const quickFor = 100
/** Deliveries leased to one endpoint that is quick, as a multiple of its concurrency. */
const aheadFactor = 16

interface Lane<C> {
  readonly endpoint: Endpoint
  sending: number
  readonly waiting: Array<{ readonly claim: C; readonly since: number }>
  /** Number that the next claim may lease of the endpoint. */
  wanted: number
  /** Whether the last claim leased all that it might, so that more may be due. The endpoint is named once for it. */
  more: boolean
  /** Until when the endpoint counts as quick, in milliseconds. */
  quickUntil: number
}

export interface Lanes<C extends Claim> {
  /** Returns endpoints as a claim is to visit them: those that are quick have deliveries claimed ahead, up to `room` in all. */
  readonly named: (endpoints: Iterable<Endpoint>, now: number, room: number) => ReadonlyArray<Named>
  /** Starts the claims that a lane has room for; the others wait. */
  readonly add: (claims: ReadonlyArray<C>, now: number) => void
  /** Returns what a lane sends next after the end of an attempt, and what it returns: what waits too long, or after a failure. */
  readonly next: (
    claim: C,
    ended: { readonly succeeded: boolean; readonly millis: number; readonly now: number }
  ) => { readonly next: C | undefined; readonly returned: ReadonlyArray<C> }
  /**
   * Names, once, the endpoints that are quick, have more due and at most half of their leases left. Forgets empty lanes.
   */
  readonly hungry: (now: number) => ReadonlyArray<Endpoint>
  /** Takes what waits for an endpoint, or for all. */
  readonly drop: (endpoint?: Endpoint) => ReadonlyArray<C>
}

/** `width` is the concurrency of an endpoint; `send` starts an attempt. */
export const make = <C extends Claim>(width: number, send: (claim: C) => void): Lanes<C> => {
  const lanes = new Map<string, Lane<C>>()
  const ahead = width * aheadFactor
  const leases = (lane: Lane<C>) => lane.sending + lane.waiting.length
  const empty = ({ waiting }: Lane<C>) => waiting.splice(0).map(({ claim }) => claim)

  const laneOf = (endpoint: Endpoint) => {
    const key = keyOf(endpoint)
    const known = lanes.get(key)
    if (known !== undefined) return known
    const { installationId, projectId } = endpoint
    const lane: Lane<C> = {
      endpoint: { projectId, installationId },
      sending: 0,
      waiting: [],
      wanted: width,
      more: false,
      quickUntil: 0
    }
    lanes.set(key, lane)
    return lane
  }

  return {
    named: (endpoints, now, room) => {
      let left = room
      return Array.from(endpoints, (endpoint) => {
        const lane = lanes.get(keyOf(endpoint))
        if (lane === undefined) return { ...endpoint, width }
        lane.wanted = now < lane.quickUntil && left >= ahead ? ahead : width
        left -= lane.wanted - width
        return { ...endpoint, width: lane.wanted }
      })
    },
    add: (claims, now) => {
      const filled = new Set<Lane<C>>()
      for (const claim of claims) {
        const lane = laneOf(claim)
        filled.add(lane)
        if (lane.sending >= (claim.suspect ? 1 : width)) {
          lane.waiting.push({ claim, since: now })
        } else {
          lane.sending++
          send(claim)
        }
      }
      for (const lane of filled) {
        lane.more = leases(lane) >= lane.wanted
        lane.wanted = width
      }
    },
    next: (claim, { millis, now, succeeded }) => {
      const lane = laneOf(claim)
      lane.quickUntil = succeeded && millis < quick ? now + quickFor : 0
      const returned = succeeded ? [] : empty(lane)
      let next = lane.waiting.shift()
      while (next !== undefined && now - next.since > waitsAtMost) {
        returned.push(next.claim)
        next = lane.waiting.shift()
      }
      if (next === undefined) lane.sending--
      return { next: next?.claim, returned }
    },
    hungry: (now) => {
      const found: Array<Endpoint> = []
      for (const [key, lane] of lanes) {
        if (now < lane.quickUntil && lane.more && leases(lane) <= ahead / 2) {
          lane.more = false
          found.push(lane.endpoint)
        } else if (leases(lane) === 0) {
          lanes.delete(key)
        }
      }
      return found
    },
    drop: (endpoint) => {
      if (endpoint === undefined) return [...lanes.values()].flatMap(empty)
      const lane = lanes.get(keyOf(endpoint))
      return lane === undefined ? [] : empty(lane)
    }
  }
}

/** No id holds the character between them. */
const keyOf = ({ installationId, projectId }: Endpoint) => `${projectId}\u0000${installationId}`
