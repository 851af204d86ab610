/** The results of `doctor`: the state of each check, and advice. */
import { Cause, Effect } from "effect"
import { faultLines } from "../../Runner.ts"

export interface Finding {
  readonly check: string
  /** `warning`: works, but needs attention. `skipped`: a check on which this one depends is not in order. */
  readonly status: "ok" | "warning" | "failed" | "skipped"
  readonly detail: string
  /** The remedy; null if none is needed. */
  readonly advice: string | null
}

export type Judgement = Omit<Finding, "check">

export const ok = (detail: string): Judgement => ({ status: "ok", detail, advice: null })
export const warning = (detail: string, advice: string): Judgement => ({ status: "warning", detail, advice })
export const failed = (detail: string, advice: string): Judgement => ({ status: "failed", detail, advice })
export const skipped: Judgement = { status: "skipped", detail: "what it rests on is not in order", advice: null }

export const failure =
  (advice: string) =>
  (cause: Cause.Cause<unknown>): Effect.Effect<Judgement> =>
    Effect.succeed(failed(faultLines(Cause.squash(cause)).join("; "), advice))
