/** What calls came to, recorded for many recipients in one statement. */
import type { SqlClient } from "effect/sql"
import type { Outcome } from "../../messaging/Connectors.ts"
import { resultOf } from "../../messaging/Messages/Schedule.ts"
import type { Claim } from "./Claims.ts"
import { after, type Event } from "./States.ts"

/** What became of an attempt. */
export interface Result extends Pick<Claim, "projectId" | "audienceId" | "position" | "route" | "attempt"> {
  readonly on: Event
  /** The route of the next attempt, if there is one. */
  readonly nextRoute: Claim["route"]
  readonly inDoubt: boolean
  /** When the next attempt is due; null where it is at once, or never. */
  readonly availableAt: Date | null
}

/** Follows the rules of messages (§8); what has surely failed on the primary route goes on to the fallback. */
export const recipientResult = (claim: Claim, idempotent: boolean, outcome: Outcome, finishedAt: Date): Result => {
  const { attempt, audienceId, inDoubt, position, projectId, route } = claim
  const { nextAttemptAt, on } = resultOf({ number: attempt, inDoubt, idempotent }, outcome, finishedAt)
  const common = {
    projectId,
    audienceId,
    position,
    route,
    attempt,
    nextRoute: route,
    inDoubt,
    availableAt: nextAttemptAt
  }
  const diverts = claim.hasFallback && !inDoubt
  switch (on) {
    case "accepted":
    case "postponed":
      return { ...common, on }
    case "unclear":
      return { ...common, on: nextAttemptAt === null ? "unclear" : "repeated", inDoubt: true }
    case "exhausted_in_doubt":
      return { ...common, on: "unclear" }
    default:
      return diverts ? { ...common, on: "diverted", nextRoute: "fallback" } : { ...common, on: "refused" }
  }
}

/** The process ends before the call: as if it had never been claimed. */
export const released = ({ attempt, audienceId, inDoubt, position, projectId, route }: Claim): Result => ({
  projectId,
  audienceId,
  position,
  route,
  attempt,
  on: "released",
  nextRoute: route,
  inDoubt,
  availableAt: null
})

/** Records results; those of attempts that have lost their lease change nothing. */
export const record = (sql: SqlClient.SqlClient, results: ReadonlyArray<Result>) => sql`
  UPDATE campaign_recipients AS recipient SET
    status = result."to", route = result."nextRoute", in_doubt = result."inDoubt", available_at = result."availableAt",
    attempts = CASE result."on" WHEN 'released' THEN recipient.attempts - 1 WHEN 'diverted' THEN 0 ELSE recipient.attempts END
  FROM jsonb_to_recordset(${JSON.stringify(results.map((result) => ({ ...result, to: after(result.on) })))}::jsonb) AS result (
    "projectId" text, "audienceId" text, position int, route text, attempt int, "on" text, "to" text, "nextRoute" text,
    "inDoubt" boolean, "availableAt" timestamptz
  )
  WHERE recipient.project_id = result."projectId" AND recipient.audience_id = result."audienceId"
    AND recipient.position = result.position
    AND recipient.status = 'sending' AND recipient.route = result.route AND recipient.attempts = result.attempt`
