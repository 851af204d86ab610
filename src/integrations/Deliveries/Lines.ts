/** Where claims wait for their turn: so many of an endpoint are sent at a time, and what was claimed ahead comes next. */
import type { Endpoint } from "../../platform/outbox/Wake.ts"
import type { Claim } from "./Claims.ts"

/**
 * For so long a claim knows of its endpoint what is true, even if nobody tells of a change: then it is made anew (in
 * milliseconds).
 */
const fresh = 1_000

interface Line<C> {
  sending: number
  readonly waiting: Array<{ readonly claim: C; readonly since: number }>
}

export interface Lines<C extends Claim> {
  /** How many are being sent. */
  readonly sending: () => number
  /** Sends a claim, or has it wait for those before it. */
  readonly add: (claim: C, now: number) => void
  /** After the end of one: what is to be sent next. Gives back what is too old, or all that waits when that one failed. */
  readonly next: (
    claim: C,
    succeeded: boolean,
    now: number
  ) => { readonly next: C | undefined; readonly back: ReadonlyArray<C> }
  /** Gives back all that waits for an endpoint. */
  readonly drop: (endpoint: Endpoint) => ReadonlyArray<C>
  /** Gives back all that waits. */
  readonly clear: () => ReadonlyArray<C>
}

/** `width` is how many of one endpoint may be sent at a time; `send` is called for the first of those who follow on. */
export const make = <C extends Claim>(width: number, send: (claim: C) => void): Lines<C> => {
  const lines = new Map<string, Line<C>>()
  let sending = 0

  const empty = ({ waiting }: Line<C>) => waiting.splice(0).map(({ claim }) => claim)

  return {
    sending: () => sending,
    add: (claim, now) => {
      const key = keyOf(claim.projectId, claim.installationId)
      const line = lines.get(key) ?? { sending: 0, waiting: [] }
      if (line.sending === width) {
        line.waiting.push({ claim, since: now })
        return
      }
      lines.set(key, line)
      line.sending++
      sending++
      send(claim)
    },
    next: (claim, succeeded, now) => {
      const key = keyOf(claim.projectId, claim.installationId)
      const line = lines.get(key)
      if (line === undefined) return { next: undefined, back: [] }
      const back = succeeded ? [] : empty(line)
      let next = line.waiting.shift()
      while (next !== undefined && now - next.since > fresh) {
        back.push(next.claim)
        next = line.waiting.shift()
      }
      if (next === undefined) {
        sending--
        if (--line.sending === 0) lines.delete(key)
      }
      return { next: next?.claim, back }
    },
    drop: ([projectId, installationId]) => {
      const line = lines.get(keyOf(projectId, installationId))
      return line === undefined ? [] : empty(line)
    },
    clear: () => [...lines.values()].flatMap(empty)
  }
}

/** No id holds the character between them. */
const keyOf = (projectId: string, installationId: string) => `${projectId}\u0000${installationId}`
