/** Results of attempts, recorded for many recipients in one statement. */
import type { SqlClient, Statement } from "effect/sql"
import type { Outcome } from "../../messaging/Outcomes.ts"
import { resultOf } from "../../messaging/RetrySchedule.ts"
import type { Claim } from "./Claims.ts"
import { after, type Event } from "./States.ts"

/** The result of an attempt. */
export interface Result extends Pick<Claim, "projectId" | "audienceId" | "position" | "route" | "attempt"> {
  readonly on: Event
  /** The route of the next attempt, if there is one. */
  readonly nextRoute: Claim["route"]
  readonly inDoubt: boolean
  /** Milliseconds until the next attempt; null if it is due at once or there is none. */
  readonly delayMillis: number | null
}

/**
 * Applies the rules of messages (contract §8). A recipient that certainly failed on the primary route continues on the
 * fallback route.
 */
export const recipientResult = (claim: Claim, idempotent: boolean, outcome: Outcome): Result => {
  const { attempt, audienceId, inDoubt, position, projectId, route } = claim
  const { delayMillis, on } = resultOf({ number: attempt, inDoubt, idempotent }, outcome)
  const common = {
    projectId,
    audienceId,
    position,
    route,
    attempt,
    nextRoute: route,
    inDoubt,
    delayMillis
  }
  const diverts = claim.hasFallback && !inDoubt
  switch (on) {
    case "accepted":
    case "postponed":
      return { ...common, on }
    case "unclear":
      return { ...common, on: delayMillis === null ? "unclear" : "repeated", inDoubt: true }
    case "exhausted_in_doubt":
      return { ...common, on: "unclear" }
    default:
      return diverts ? { ...common, on: "diverted", nextRoute: "fallback" } : { ...common, on: "refused" }
  }
}

/** The result of a claim whose provider was not called: the recipient is as before the claim. */
export const released = ({ attempt, audienceId, inDoubt, position, projectId, route }: Claim): Result => ({
  projectId,
  audienceId,
  position,
  route,
  attempt,
  on: "released",
  nextRoute: route,
  inDoubt,
  delayMillis: null
})

/** Records results. The results of attempts that have lost their lease are ignored. */
export const record = (sql: SqlClient.SqlClient, now: Statement.Fragment, results: ReadonlyArray<Result>) => sql`
  UPDATE campaign_recipients AS recipient SET
    status = result."to", route = result."nextRoute", in_doubt = result."inDoubt", worker_id = NULL,
    available_at = ${now} + result."delayMillis" * interval '1 millisecond',
    attempts = CASE result."on" WHEN 'released' THEN recipient.attempts - 1 WHEN 'diverted' THEN 0 ELSE recipient.attempts END
  FROM jsonb_to_recordset(${JSON.stringify(results.map((result) => ({ ...result, to: after(result.on) })))}::jsonb) AS result (
    "projectId" text, "audienceId" text, position int, route text, attempt int, "on" text, "to" text, "nextRoute" text,
    "inDoubt" boolean, "delayMillis" float8
  )
  WHERE recipient.project_id = result."projectId" AND recipient.audience_id = result."audienceId"
    AND recipient.position = result.position
    AND recipient.status = 'sending' AND recipient.route = result.route AND recipient.attempts = result.attempt`
