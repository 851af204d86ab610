/**
 * Keeps the deliveries that one process has leased, in a queue for each endpoint. Also keeps the named endpoints: a claim visits
 * them even if their rows are not due.
 *
 * A queue sends at most as many deliveries at the same time as the endpoint's concurrency permits. When an attempt ends, the
 * next delivery is sent. For an endpoint that answers quickly, more deliveries are claimed ahead, so that no claim is needed
 * between two deliveries.
 */
import type { ProjectId } from "../../../api/schema/Ids.ts"
import { type Endpoint, keyOf } from "../../Endpoint.ts"
import type { Claim } from "../Attempt.ts"
import type { Named } from "./Visits.ts"

/** After this many milliseconds a waiting delivery is returned unsent, because its webhook may have changed. */
const waitsAtMost = 1_000
/** An answer is quick if it takes less than this many milliseconds. Deliveries are claimed ahead only for quick endpoints. */
const quick = 50
/** How long an endpoint counts as quick after a quick answer, in milliseconds. */
const quickFor = 100
/** Maximum number of leases of a quick endpoint, as a multiple of its concurrency. */
const aheadFactor = 16
/** Maximum number of deliveries claimed ahead: in all queues together, and by one claim. */
const waitingInAll = 3_072
const aheadPerClaim = 1_000
/**
 * Maximum number of named endpoints that one claim visits. Each endpoint takes PostgreSQL about 0.1 ms, and no result is
 * recorded during the claim.
 */
export const namedPerClaim = 1_000

interface EndpointQueue<C> {
  readonly endpoint: Endpoint
  /** Leases without a recorded result: sending, waiting or ended. The row of the endpoint counts them as `in_flight`. */
  readonly leased: Set<C>
  sending: number
  readonly waiting: Array<{ readonly claim: C; readonly since: number }>
  /** Maximum number of leases of the endpoint after the next claim. */
  wanted: number
  /**
   * Whether the endpoint had `wanted` leases after the last claim, so that more deliveries may be due. False once `refresh`
   * has named the endpoint.
   */
  more: boolean
  /** Whether the endpoint had the maximum number of leases after the last claim, so that more deliveries may be due. */
  isFull: boolean
  /** The monotonic time until which the endpoint counts as prompt (see `DeliveryLoop.ts`), in milliseconds. */
  promptUntil: number
  /** The monotonic time until which the endpoint counts as quick, in milliseconds. */
  quickUntil: number
}

export interface EndpointQueues<C extends Claim> {
  readonly name: (endpoints: Iterable<Endpoint>) => void
  /**
   * Names quick endpoints for the next claim: those that may have more due deliveries, and whose running attempts and waiting
   * deliveries are at most half of their maximum number of leases. Removes queues without leases whose endpoints are no longer
   * quick.
   */
  readonly refresh: (now: number) => void
  readonly isAnyNamed: () => boolean
  /**
   * Removes and returns up to `namedPerClaim` named endpoints. `width` is the maximum number of leases of a returned endpoint
   * after the claim (in `make`, `width` is the concurrency).
   */
  readonly takeNamed: (now: number) => ReadonlyArray<Named>
  /** Adds the deliveries that a claim has leased. Starts as many as the concurrency permits; the others wait. */
  readonly add: (claims: ReadonlyArray<C>, now: number) => void
  /**
   * Returns the delivery to send next after `claim` has ended, and the deliveries to return unsent. After a failure, all waiting
   * deliveries are returned unsent. Otherwise only deliveries that have waited too long are returned unsent.
   */
  readonly next: (
    claim: C,
    ended: { readonly succeeded: boolean; readonly millis: number; readonly now: number; readonly isPrompt: boolean }
  ) => { readonly next: C | undefined; readonly returned: ReadonlyArray<C> }
  /** Removes a lease whose result is recorded or lost. */
  readonly recorded: (claim: C) => void
  /** Removes and returns the waiting deliveries of an endpoint, or of all endpoints. */
  readonly drop: (endpoint?: Endpoint) => ReadonlyArray<C>
  readonly leased: () => ReadonlyArray<C>
  /** Returns the projects of endpoints whose deliveries wait for this process, and not for the endpoint. */
  readonly behind: (now: number) => ReadonlySet<ProjectId>
}

/** `width` is the concurrency of an endpoint; `send` starts an attempt. */
export const make = <C extends Claim>(width: number, send: (claim: C) => void): EndpointQueues<C> => {
  const queues = new Map<string, EndpointQueue<C>>()
  const named = new Map<string, Endpoint>()
  let waiting = 0
  const ahead = width * aheadFactor
  const left = (queue: EndpointQueue<C>) => queue.sending + queue.waiting.length
  const empty = (queue: EndpointQueue<C>) => {
    waiting -= queue.waiting.length
    return queue.waiting.splice(0).map(({ claim }) => claim)
  }
  const shift = (queue: EndpointQueue<C>) => {
    if (queue.waiting.length > 0) waiting--
    return queue.waiting.shift()
  }
  const name = (endpoints: Iterable<Endpoint>) => {
    for (const endpoint of endpoints) named.set(keyOf(endpoint), endpoint)
  }

  const queueOf = (endpoint: Endpoint) => {
    const key = keyOf(endpoint)
    const known = queues.get(key)
    if (known !== undefined) return known
    const { installationId, projectId } = endpoint
    const queue: EndpointQueue<C> = {
      endpoint: { projectId, installationId },
      leased: new Set(),
      sending: 0,
      waiting: [],
      wanted: width,
      more: false,
      isFull: false,
      promptUntil: 0,
      quickUntil: 0
    }
    queues.set(key, queue)
    return queue
  }

  return {
    name,
    refresh: (now) => {
      for (const [key, queue] of queues) {
        if (now < queue.quickUntil && queue.more && left(queue) <= ahead / 2) {
          queue.more = false
          name([queue.endpoint])
        } else if (queue.leased.size === 0 && now >= queue.quickUntil) {
          queues.delete(key)
        }
      }
    },
    isAnyNamed: () => named.size > 0,
    takeNamed: (now) => {
      let free = Math.min(aheadPerClaim, waitingInAll - waiting)
      return Array.from(named.entries().take(namedPerClaim), ([key, { installationId, projectId }]) => {
        named.delete(key)
        const queue = queues.get(key)
        if (queue === undefined) return { projectId, installationId, width }
        queue.isFull = false
        queue.wanted = now < queue.quickUntil && free >= ahead ? ahead : width
        free -= queue.wanted - width
        return { projectId, installationId, width: queue.wanted }
      })
    },
    add: (claims, now) => {
      const filled = new Set<EndpointQueue<C>>()
      for (const claim of claims) {
        const queue = queueOf(claim)
        filled.add(queue)
        queue.leased.add(claim)
        if (queue.sending >= (claim.suspect ? 1 : width)) {
          waiting++
          queue.waiting.push({ claim, since: now })
        } else {
          queue.sending++
          send(claim)
        }
      }
      for (const queue of filled) {
        queue.more = queue.leased.size >= queue.wanted
        queue.isFull = queue.leased.size >= ahead
        queue.wanted = width
      }
    },
    next: (claim, { isPrompt, millis, now, succeeded }) => {
      const queue = queueOf(claim)
      if (isPrompt) queue.promptUntil = now + quickFor
      queue.quickUntil = succeeded && millis < quick ? now + quickFor : 0
      const returned = succeeded ? [] : empty(queue)
      let next = shift(queue)
      while (next !== undefined && now - next.since > waitsAtMost) {
        returned.push(next.claim)
        next = shift(queue)
      }
      if (next === undefined) queue.sending--
      return { next: next?.claim, returned }
    },
    recorded: (claim) => {
      queueOf(claim).leased.delete(claim)
    },
    drop: (endpoint) => {
      if (endpoint === undefined) return [...queues.values()].flatMap(empty)
      const queue = queues.get(keyOf(endpoint))
      return queue === undefined ? [] : empty(queue)
    },
    behind: (now) => {
      const projects = new Set<ProjectId>()
      for (const { endpoint, isFull, promptUntil } of queues.values())
        if (isFull && now < promptUntil) projects.add(endpoint.projectId)
      return projects
    },
    leased: () => [...queues.values()].flatMap(({ leased }) => [...leased])
  }
}
