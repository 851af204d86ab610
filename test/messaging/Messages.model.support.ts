/** A plain model of a message (contract §8). */
import type { AttemptStatus, MessageStatus } from "../../src/api/messaging/Messaging.ts"

/** The ends of a call; `dies`: its process is killed, and the outcome is never recorded. */
export type Ending =
  | { readonly is: "accepted" | "refused" | "unknown" | "dies" }
  | { readonly is: "postponed"; readonly retryAfter: number | undefined }

/** Changes by operators in the meantime. */
export type OutsideChange = "nothing" | "settle sent" | "settle failed" | "revoke" | "swap" | "restore"

/** The state of a message in the model. */
export interface Known {
  readonly status: MessageStatus
  readonly log: ReadonlyArray<AttemptStatus>
  /** Milliseconds from the end of the last attempt to the next; null where there is to be none. */
  readonly next: number | null
}

const backoff = [1_000, 5_000, 30_000, 120_000]

/** The next state of a message after an attempt in flight. */
export const ended = ({ log }: Known, ending: Ending, idempotent: boolean): Known => {
  const before = log.slice(0, -1)
  const delay = backoff[log.length - 1] ?? null
  switch (ending.is) {
    case "accepted":
      return { status: "sent", log: [...before, "accepted"], next: null }
    case "refused":
      return { status: "failed", log: [...before, "rejected"], next: null }
    case "unknown":
    case "dies":
      return { status: "unknown", log: [...before, "unknown"], next: idempotent ? delay : null }
    case "postponed":
      if (delay === null) return { status: givenUp(before), log: [...before, "rejected"], next: null }
      return { status: "retrying", log: [...before, "retrying"], next: Math.max(delay, ending.retryAfter ?? 0) }
  }
}

/** A message that may have been sent cannot fail, except by an operator. */
const givenUp = (log: ReadonlyArray<AttemptStatus>): MessageStatus => (log.includes("unknown") ? "unknown" : "failed")

/** The next state of a message whose channel is gone when its next attempt is due. */
export const abandoned = ({ log }: Known): Known => ({ status: givenUp(log), log, next: null })

export const begun = (known: Known): Known => ({ ...known, log: [...known.log, "pending"] })

/** The next state after an operator settles the message; undefined if that is refused. */
export const settled = (known: Known, as: "sent" | "failed"): Known | undefined => {
  if (known.status === as) return known
  if (known.status !== "unknown") return undefined
  const log = known.log.map((status) => (status === "pending" ? "unknown" : status))
  return { status: as, log, next: null }
}
