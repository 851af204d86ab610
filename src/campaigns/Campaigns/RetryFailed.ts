/** SQL that has the failed recipients of a campaign get another message. */
import type { SqlClient } from "effect/sql"
import type { CampaignId, ProjectId } from "../../api/schema/Ids.ts"
import { stepOf } from "../../api/schema/States.ts"
import type { EventContext } from "../../outbox/Outbox.ts"
import { recipients } from "../Runner/Recipients.ts"
import { commandOn, stateAfter } from "./Target.ts"

/** Maximum number of recipients that one command retries. */
export const retriedMax = 20_000

const { from, to } = stepOf(recipients, "retried")

/** Maximum number of retries of a recipient. An erasure looks for the message of each (`Runner/Release.ts`). */
const retriesMax = 20

/**
 * Returns failed recipients to the queue, those with the same error code one after the other. Nothing was sent to a failed recipient,
 * so another message repeats none; a recipient of unknown outcome is no failed one. A completed campaign runs again. `returned` is the
 * number of recipients.
 */
export const retryFailed = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  id: CampaignId,
  { at, traceparent }: Pick<EventContext, "at" | "traceparent">
) => ({
  ...commandOn(sql, {
    projectId,
    id,
    operation: "retry_failed",
    at,
    before: sql`
      failed AS MATERIALIZED (
        SELECT project_id, audience_id, position, retries FROM campaign_recipients
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
          message_id = NULL, error_code = NULL, retries = recipient.retries + 1
        FROM claim, failed
        WHERE recipient.project_id = failed.project_id AND recipient.audience_id = failed.audience_id
          AND recipient.position = failed.position
      ),
      noted AS (
        UPDATE audiences SET retries = greatest(audiences.retries, (SELECT max(retries) + 1 FROM failed)) FROM claim, target
        WHERE audiences.project_id = ${projectId} AND audiences.id = target.audience_id AND claim.changed
      ),
      updated AS (
        UPDATE campaigns SET status = ${sql.literal(stateAfter("retry_failed"))}, traceparent = ${traceparent}::text,
          version = campaigns.version + 1, updated_at = greatest(campaigns.updated_at, ${at}::timestamptz)
        FROM claim, target
        WHERE campaigns.project_id = ${projectId} AND campaigns.id = ${id} AND claim.changed
      )`
  }),
  returning: sql`(SELECT count(*)::int FROM failed)`
})
