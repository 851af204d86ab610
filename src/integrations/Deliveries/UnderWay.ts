/** What a process has claimed and not yet recorded. */
import type { Claim } from "./Claims.ts"
import type { Result } from "./Results.ts"

/** With the attempt: a delivery whose lease was lost may come back while its first attempt is still under way. */
export const keyOf = ({ attempt, id, projectId }: Pick<Claim, "projectId" | "id" | "attempt">) =>
  `${attempt}/${projectId}/${id}`

/** A claim, and when its attempt began. */
export interface UnderWay extends Claim {
  startedAt: Date
}

/** What was claimed and is not finished. */
export const returned = (
  { attempt, id, installationId, projectId, startedAt }: UnderWay,
  on: "released" | "unsent",
  at: Date
): Result => ({
  projectId,
  installationId,
  id,
  attempt,
  on,
  statusCode: null,
  errorCode: "interrupted",
  startedAt,
  finishedAt: at,
  availableAt: at,
  restUntil: null,
  spread: 1
})

/** A claim and what became of it. */
export interface Ended {
  readonly claim: UnderWay
  readonly result: Result
}
