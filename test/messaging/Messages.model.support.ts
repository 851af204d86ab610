/** What contract §8 says of a message, as plain as a test can say it. */
import type { AttemptStatus, MessageStatus } from "../../src/api/messaging/Messaging.ts"

/** What a call can come to; `dies`: its process does, and nobody ever hears. */
export type Ending =
  | { readonly is: "accepted" | "refused" | "unknown" | "dies" }
  | { readonly is: "postponed"; readonly retryAfter: number | undefined }

/** What operators can do meanwhile. */
export type OutsideChange = "nothing" | "settle sent" | "settle failed" | "revoke" | "swap" | "restore"

/** What is known of a message. */
export interface Known {
  readonly status: MessageStatus
  readonly log: ReadonlyArray<AttemptStatus>
  /** Milliseconds from the end of the last attempt to the next; null where there is to be none. */
  readonly next: number | null
}

const backoff = [1_000, 5_000, 30_000, 120_000]

/** How a message goes on from an attempt that was under way. */
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

/** What may have been sent can't be called failed, but by who knows better. */
const givenUp = (log: ReadonlyArray<AttemptStatus>): MessageStatus => (log.includes("unknown") ? "unknown" : "failed")

/** What becomes of a message whose channel is gone when its next attempt is due. */
export const abandoned = ({ log }: Known): Known => ({ status: givenUp(log), log, next: null })

export const begun = (known: Known): Known => ({ ...known, log: [...known.log, "pending"] })

/** What an operator's word makes of it; undefined where it is refused. */
export const settled = (known: Known, as: "sent" | "failed"): Known | undefined => {
  if (known.status === as) return known
  if (known.status !== "unknown") return undefined
  const log = known.log.map((status) => (status === "pending" ? "unknown" : status))
  return { status: as, log, next: null }
}
