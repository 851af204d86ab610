/** Where claims wait for their turn: so many of an endpoint are sent at a time, and what was claimed ahead comes next. */
import type { Claim } from "./Claims.ts"

/** For so long a claim knows of its endpoint what is true: then it is made anew (in milliseconds). */
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
  /** After the end of one: sends the next. Gives back what is too old, or all that waits when that one failed. */
  readonly next: (claim: C, succeeded: boolean, now: number) => ReadonlyArray<C>
  /** Gives back all that waits. */
  readonly clear: () => ReadonlyArray<C>
}

/** `width` is how many of one endpoint may be sent at a time. */
export const make = <C extends Claim>(width: number, send: (claim: C) => void): Lines<C> => {
  const lines = new Map<string, Line<C>>()
  let sending = 0

  const start = (line: Line<C>, claim: C) => {
    line.sending++
    sending++
    send(claim)
  }

  return {
    sending: () => sending,
    add: (claim, now) => {
      const line = lines.get(endpointOf(claim)) ?? { sending: 0, waiting: [] }
      lines.set(endpointOf(claim), line)
      if (line.sending < width) start(line, claim)
      else line.waiting.push({ claim, since: now })
    },
    next: (claim, succeeded, now) => {
      const line = lines.get(endpointOf(claim))
      if (line === undefined) return []
      line.sending--
      sending--
      const back: Array<C> = []
      if (!succeeded) back.push(...line.waiting.splice(0).map(({ claim }) => claim))
      while (line.sending < width) {
        const next = line.waiting.shift()
        if (next === undefined) break
        if (now - next.since > fresh) back.push(next.claim)
        else start(line, next.claim)
      }
      if (line.sending === 0) lines.delete(endpointOf(claim))
      return back
    },
    clear: () => [...lines.values()].flatMap(({ waiting }) => waiting.splice(0).map(({ claim }) => claim))
  }
}

/** No id holds the character between them. */
const endpointOf = ({ installationId, projectId }: Claim) => `${projectId}\u0000${installationId}`
