/**
 * The queues of one process, one for each endpoint. A queue sends as many deliveries at a time as the endpoint's concurrency,
 * and the next one when one has ended. For an endpoint that answers quickly, more deliveries are claimed ahead, so that it
 * does not wait for a claim between two deliveries.
 */
import type { Claim } from "./Claim.ts"
import type { Endpoint, Named } from "./Claim/Endpoints.ts"

/** Time, in milliseconds, after which a waiting delivery is returned and claimed anew, as its webhook may have changed. */
const waitsAtMost = 1_000
/** Maximum duration, in milliseconds, of the answers of a quick endpoint, which has deliveries claimed ahead. */
const quick = 50
/** Time, in milliseconds, after such an answer for which an endpoint counts as quick. */
const quickFor = 100
/** Deliveries leased to one endpoint that is quick, as a multiple of its concurrency. */
const aheadFactor = 16

interface EndpointQueue<C> {
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

export interface EndpointQueues<C extends Claim> {
  /** Returns endpoints as a claim is to visit them: those that are quick have deliveries claimed ahead, up to `room` in all. */
  readonly named: (endpoints: Iterable<Endpoint>, now: number, room: number) => ReadonlyArray<Named>
  /** Starts the claims that a queue has room for; the others wait. */
  readonly add: (claims: ReadonlyArray<C>, now: number) => void
  /** Returns what is sent next to an endpoint after the end of an attempt, and what is returned: after a failure, or a long wait. */
  readonly next: (
    claim: C,
    ended: { readonly succeeded: boolean; readonly millis: number; readonly now: number }
  ) => { readonly next: C | undefined; readonly returned: ReadonlyArray<C> }
  /**
   * Names, once, the endpoints that are quick, have more due and at most half of their leases left. Forgets empty queues.
   */
  readonly runningLow: (now: number) => ReadonlyArray<Endpoint>
  /** Takes what waits for an endpoint, or for all. */
  readonly drop: (endpoint?: Endpoint) => ReadonlyArray<C>
}

/** `width` is the concurrency of an endpoint; `send` starts an attempt. */
export const make = <C extends Claim>(width: number, send: (claim: C) => void): EndpointQueues<C> => {
  const queues = new Map<string, EndpointQueue<C>>()
  const ahead = width * aheadFactor
  const leases = (queue: EndpointQueue<C>) => queue.sending + queue.waiting.length
  const empty = ({ waiting }: EndpointQueue<C>) => waiting.splice(0).map(({ claim }) => claim)

  const queueOf = (endpoint: Endpoint) => {
    const key = keyOf(endpoint)
    const known = queues.get(key)
    if (known !== undefined) return known
    const { installationId, projectId } = endpoint
    const queue: EndpointQueue<C> = {
      endpoint: { projectId, installationId },
      sending: 0,
      waiting: [],
      wanted: width,
      more: false,
      quickUntil: 0
    }
    queues.set(key, queue)
    return queue
  }

  return {
    named: (endpoints, now, room) => {
      let left = room
      return Array.from(endpoints, (endpoint) => {
        const queue = queues.get(keyOf(endpoint))
        if (queue === undefined) return { ...endpoint, width }
        queue.wanted = now < queue.quickUntil && left >= ahead ? ahead : width
        left -= queue.wanted - width
        return { ...endpoint, width: queue.wanted }
      })
    },
    add: (claims, now) => {
      const filled = new Set<EndpointQueue<C>>()
      for (const claim of claims) {
        const queue = queueOf(claim)
        filled.add(queue)
        if (queue.sending >= (claim.suspect ? 1 : width)) {
          queue.waiting.push({ claim, since: now })
        } else {
          queue.sending++
          send(claim)
        }
      }
      for (const queue of filled) {
        queue.more = leases(queue) >= queue.wanted
        queue.wanted = width
      }
    },
    next: (claim, { millis, now, succeeded }) => {
      const queue = queueOf(claim)
      queue.quickUntil = succeeded && millis < quick ? now + quickFor : 0
      const returned = succeeded ? [] : empty(queue)
      let next = queue.waiting.shift()
      while (next !== undefined && now - next.since > waitsAtMost) {
        returned.push(next.claim)
        next = queue.waiting.shift()
      }
      if (next === undefined) queue.sending--
      return { next: next?.claim, returned }
    },
    runningLow: (now) => {
      const found: Array<Endpoint> = []
      for (const [key, queue] of queues) {
        if (now < queue.quickUntil && queue.more && leases(queue) <= ahead / 2) {
          queue.more = false
          found.push(queue.endpoint)
        } else if (leases(queue) === 0) {
          queues.delete(key)
        }
      }
      return found
    },
    drop: (endpoint) => {
      if (endpoint === undefined) return [...queues.values()].flatMap(empty)
      const queue = queues.get(keyOf(endpoint))
      return queue === undefined ? [] : empty(queue)
    }
  }
}

/** No id holds the character between them. */
const keyOf = ({ installationId, projectId }: Endpoint) => `${projectId}\u0000${installationId}`
