/** The commands with which operators list, pause, resume, cancel and retry campaigns (contract §13). */
import { Effect, Record } from "effect"
import { SqlClient } from "effect/sql"
import { allCommands } from "../api/campaigns/Commands.ts"
import { CampaignId, type ProjectId } from "../api/schema/Ids.ts"
import type { Mutation } from "../commands/Command.ts"
import { newOnce, actByMutation } from "../operating/AuditedActions.ts"
import { eventContext, type EventContext } from "../outbox/Outbox.ts"
import { livesHere } from "../platform/MoveState.ts"
import { isCreatedIn, makeList, type RangeByAge, makeShow } from "../operating/Lists.ts"
import { details, list, type Listed } from "./CampaignList.ts"
import { change, changeOf } from "./Changes.ts"
import { stepOf } from "../api/schema/States.ts"
import { recipients } from "./Recipients.ts"
import { commandOn, campaignStateAfter } from "./CommandStatement.ts"

/** The commands of operators, each with its label. */
export const operatorCommands = {
  pause: "Pause the campaign",
  resume: "Resume the campaign",
  cancel: "Cancel the campaign",
  retry_failed: "Retry the failed recipients"
} as const
export type OperatorCommand = keyof typeof operatorCommands

/** Returns the commands that would change a campaign. */
export const operatorCommandsOn = ({ progress, status }: Listed): ReadonlyArray<OperatorCommand> =>
  Record.keys(operatorCommands).filter((operation) => {
    const to = allCommands.moves[operation][status]
    return to !== undefined && (operation === "retry_failed" ? progress.failed > 0 : to !== status)
  })

/** Lists campaigns, newest first. */
export const listCampaigns = makeList(
  "listCampaigns",
  (sql, projectId, { status, ...range }: RangeByAge & { readonly status: Listed["status"] | null }) =>
    list(
      sql,
      projectId,
      sql`${sql.literal(status === null ? "" : `AND campaigns.status = '${status}'`)} AND created_at > '-infinity'
        AND ${isCreatedIn(sql, "campaigns", projectId, range)}
        ORDER BY created_at DESC, id DESC LIMIT ${range.limit + 1}::int`
    ),
  ({ id }) => id
)

export const showCampaign = makeShow("showCampaign", "campaign", details)

/** Carries out a command on a campaign. Returns the number of recipients that are retried; null if it retries none, or is repeated. */
export const commandCampaign = Effect.fn("commandCampaign")(function* (
  projectId: ProjectId,
  id: string,
  operation: OperatorCommand,
  once: string
) {
  const sql = yield* SqlClient.SqlClient
  yield* showCampaign(projectId, id)
  const cause = yield* eventContext(projectId)
  const changed: Mutation<object> =
    operation === "retry_failed"
      ? retryFailed(sql, projectId, CampaignId.make(id), cause)
      : change(sql, projectId, CampaignId.make(id), changeOf({ operation }), cause)
  return yield* actByMutation<number>({ projectId, action: `campaign.${operation}`, id, once }, changed)
})

/**
 * Pauses every campaign that sends or is to send by itself, in all projects that this database serves. A restored database does
 * not know what was sent after its backup, and would send it again. Returns the campaigns.
 */
export const pauseAll = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const underWay = yield* sql<{ readonly projectId: ProjectId; readonly id: string }>`
    SELECT project_id AS "projectId", id FROM campaigns JOIN projects USING (project_id)
    WHERE status IN ('scheduled', 'running') AND projects.deleted_at IS NULL AND ${livesHere(sql, sql`move_state`)}
    ORDER BY project_id, id`
  for (const { id, projectId } of underWay) yield* commandCampaign(projectId, id, "pause", yield* newOnce)
  return underWay
}).pipe(Effect.withSpan("pauseAllCampaigns"))

/** Maximum number of recipients that one command retries. */
export const retriedMax = 20_000

const { from, to } = stepOf(recipients, "retried")

/** Maximum number of retries of a recipient. An erasure looks for the message of each (`Recipients.ts`). */
const retriesMax = 20

/**
 * Makes failed recipients pending again, in the order of their error codes. Nothing was sent to a failed recipient, so another message
 * repeats none. A recipient of unknown outcome is not failed until an operator settles its message as failed. A completed campaign runs
 * again. Returns the number of recipients.
 */
const retryFailed = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  id: CampaignId,
  { at, traceparent }: Pick<EventContext, "at" | "traceparent">
) => ({
  ...commandOn(sql, projectId, id, "retry_failed", at, {
    before: sql`
      failed AS MATERIALIZED (
        SELECT position, retries FROM campaign_recipients
        WHERE project_id = ${projectId} AND audience_id = (SELECT audience_id FROM target) AND status = ${sql.literal(`'${from}'`)}
          AND retries < ${retriesMax}::int
        ORDER BY coalesce(error_code, 'unknown'), position LIMIT ${retriedMax}::int
        FOR NO KEY UPDATE
      ),`,
    from: sql`CROSS JOIN (SELECT count(*)::int AS number FROM failed) AS counted`,
    changed: sql`number > 0`,
    version: sql`target.version + (number > 0)::int`,
    effect: sql`
      retried AS (
        UPDATE campaign_recipients AS recipient SET status = ${to}, route = 'primary', provider_type = NULL, attempts = 0,
          in_doubt = false, message_id = NULL, error_code = NULL, retries = recipient.retries + 1
        FROM applied, failed
        WHERE recipient.project_id = ${projectId} AND recipient.audience_id = (SELECT audience_id FROM target)
          AND recipient.position = failed.position
      ),
      noted AS (
        UPDATE audiences SET retries = greatest(audiences.retries, (SELECT max(retries) + 1 FROM failed)) FROM applied, target
        WHERE audiences.project_id = ${projectId} AND audiences.id = target.audience_id AND applied.changed
      ),
      updated AS (
        UPDATE campaigns SET status = ${sql.literal(campaignStateAfter("retry_failed"))}, traceparent = ${traceparent}::text,
          version = campaigns.version + 1, updated_at = greatest(campaigns.updated_at, ${at}::timestamptz)
        FROM applied, target
        WHERE campaigns.project_id = ${projectId} AND campaigns.id = ${id} AND applied.changed
      )`
  }),
  returning: sql`(SELECT count(*)::int FROM failed)`
})
