/** The command with which a caller of the API starts a replay. */
import type { SqlClient } from "effect/sql"
import { emptyPeriod, type ReplayCreate } from "../../../api/integrations/Replays.ts"
import type { InstallationId } from "../../../api/schema/Ids.ts"
import { InstallationNotFound, ValidationFailed, WebhookStateConflict } from "../../../api/Problems.ts"
import { type Mutation, plain } from "../../../commands/Idempotency.ts"
import { installationAndWebhook, notRetriable } from "../Deliveries/Retry.ts"
import { insert } from "./Repo.ts"

/** Events of types to which the webhook does not subscribe are left out. The period ends at `at` at the latest. */
export const replay = (
  sql: SqlClient.SqlClient,
  installationId: InstallationId,
  id: string,
  { eventTypes, status, ...asked }: ReplayCreate,
  at: Date
): Mutation<InstallationNotFound | ValidationFailed | WebhookStateConflict> => {
  const since = new Date(asked.since)
  const until = new Date(Math.min(at.getTime(), asked.until === undefined ? Infinity : Date.parse(asked.until)))
  const types = eventTypes === undefined ? null : [...eventTypes]
  return {
    at,
    decided: sql`
      ${installationAndWebhook(sql, installationId)},
      decided AS MATERIALIZED (
        SELECT command.*,
          CASE
            WHEN ${since >= until}::boolean THEN 'validation_failed'
            WHEN installation.id IS NULL THEN 'installation_not_found'
            WHEN webhook.enabled IS NOT TRUE THEN 'webhook_state_conflict'
          END AS failure, CASE WHEN NOT webhook.enabled THEN ARRAY['disabled'] END AS faults,
          ${id}::text AS resource_id, true AS changed, NULL::int AS version,
          ARRAY(SELECT type FROM unnest(webhook.event_types) AS type WHERE ${types}::text[] IS NULL OR type = ANY(${types}::text[])) AS types
        FROM command LEFT JOIN installation ON true LEFT JOIN webhook ON true
      )`,
    effect: sql`
      started AS (
        ${insert(sql, { id, installationId, since, until, filter: status }, sql`types`, "claim")}
      )`,
    problems: {
      ...plain(InstallationNotFound),
      validation_failed: () => new ValidationFailed({ errors: { "body/since": [emptyPeriod] } }),
      webhook_state_conflict: ({ faults: [fault] }) =>
        new WebhookStateConflict(fault === undefined ? undefined : { detail: notRetriable[fault] ?? "" })
    }
  }
}
