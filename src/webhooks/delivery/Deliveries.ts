/** Deliveries for operators, who list, show and retry them (contract §13), and the SQL of the retry, which the API has too (§10). */
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { DeliveryId, type InstallationId, type ProjectId } from "../../api/schema/Ids.ts"
import { Notifier } from "../../outbox/Outbox.ts"
import { noSuchRecord, requireProject } from "../../operating/Refusals.ts"
import { complete, type RangeByAge, makeShow } from "../../operating/Lists.ts"
import { details, type Filter, find } from "./DeliveryList.ts"
import { installationExists } from "../WebhookList.ts"
import { InstallationNotFound, WebhookReferenceInvalid, WebhookStateConflict } from "../../api/Problems.ts"
import { type Mutation, plain } from "../../commands/Command.ts"
import { actByMutation } from "../../operating/AuditedActions.ts"

export const listDeliveries = Effect.fn("listDeliveries")(function* (
  projectId: ProjectId,
  filtered: RangeByAge & Filter
) {
  const { installationId } = filtered
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  if (installationId !== null && !(yield* installationExists(sql, projectId, installationId)))
    return yield* noSuchRecord(projectId, "installation", installationId)
  return yield* complete((range) => find(sql, projectId, filtered, range), filtered)
})

export const showDelivery = makeShow("showDelivery", "delivery", details)

/** Returns a dead delivery to the queue, at the start of its retry schedule. */
export const retryDelivery = Effect.fn("retryDelivery")(function* (projectId: ProjectId, id: string, once: string) {
  const sql = yield* SqlClient.SqlClient
  const { installationId } = yield* showDelivery(projectId, id)
  const at = new Date(yield* Clock.currentTimeMillis)
  const retried = retry(sql, projectId, installationId, DeliveryId.make(id), at)
  yield* actByMutation({ projectId, action: "delivery.retry", id, once }, retried)
  yield* (yield* Notifier).appended(projectId, [installationId])
})

type Sql = SqlClient.SqlClient

/** Maximum number of retry commands of a delivery. */
const maxRetryCommands = 20

/** Why a delivery cannot be retried: messages for people, by the code that `refusal` returns. */
export const notRetriable: Readonly<Record<string, string>> = {
  delivered: "Only a dead delivery can be retried: this one is delivered. A replay can send it again.",
  pending: "Only a dead delivery can be retried: this one is sent at its nextAttemptAt.",
  disabled: "The webhook is disabled. Enable it first: configuring it again does so.",
  replayed: "A replay has delivered this delivery: its replayedBy is the id of the other.",
  exhausted: `A delivery is retried at most ${maxRetryCommands} times. A replay can send it again.`,
  unsubscribed: "The webhook no longer subscribes to the delivery's event type."
}

/**
 * An SQL expression over `target`, `webhook` and `events`. Returns a code for the reason why the delivery cannot be retried, or
 * NULL if the delivery can be retried.
 */
const refusal = `CASE
  WHEN target.status = 'delivered' THEN 'delivered'
  WHEN webhook.enabled IS NOT TRUE THEN 'disabled'
  WHEN target.status <> 'dead' THEN 'pending'
  WHEN target.replayed_by IS NOT NULL THEN 'replayed'
  WHEN target.retry_commands >= ${maxRetryCommands} THEN 'exhausted'
  WHEN events.type <> ALL(webhook.event_types) THEN 'unsubscribed'
END`

/**
 * The SET list of a retry: the delivery is due at once. `available_at` is set by the database's clock, because claims compare
 * due times with this clock.
 */
const retryAssignments = (sql: Sql, at: Date) => sql`
  status = 'pending', retries = 0, retry_commands = retry_commands + 1, available_at = date_trunc('milliseconds', now()), retried_at = ${at}::timestamptz,
  finished_at = NULL, dead_code = NULL`

/** Reads the installation, and locks its webhook, so that the webhook is not disabled before the command has its effect. */
export const installationAndWebhook = (sql: Sql, id: InstallationId) => sql`
    installation AS MATERIALIZED (
      SELECT installations.id FROM command JOIN installations USING (project_id) WHERE installations.id = ${id}
    ),
    webhook AS MATERIALIZED (
      SELECT locked.* FROM command, LATERAL (
        SELECT enabled, event_types FROM webhooks
        WHERE project_id = command.project_id AND installation_id = ${id} FOR SHARE
      ) locked
    )`

export const retry = (
  sql: Sql,
  projectId: ProjectId,
  id: InstallationId,
  deliveryId: DeliveryId,
  at: Date
): Mutation<InstallationNotFound | WebhookReferenceInvalid | WebhookStateConflict> => ({
  at,
  decided: sql`
    ${installationAndWebhook(sql, id)},
    target AS MATERIALIZED (
      SELECT delivery.* FROM command, LATERAL (
        SELECT * FROM deliveries
        WHERE project_id = command.project_id AND id = ${deliveryId} AND installation_id = ${id}
        FOR NO KEY UPDATE
      ) delivery
    ),
    decided AS MATERIALIZED (
      SELECT command.*,
        CASE
          WHEN installation.id IS NULL THEN 'installation_not_found'
          WHEN target.id IS NULL THEN 'webhook_reference_invalid'
          WHEN refusal IS NOT NULL THEN 'webhook_state_conflict'
        END AS failure, ARRAY[refusal] AS faults,
        ${deliveryId}::text AS resource_id, true AS changed, NULL::int AS version
      FROM command LEFT JOIN installation ON true LEFT JOIN webhook ON true LEFT JOIN target ON true
        LEFT JOIN events ON events.project_id = target.project_id AND events.id = target.event_id,
        LATERAL (SELECT ${sql.literal(refusal)} AS refusal OFFSET 0) AS reason
    )`,
  effect: sql`
    retried AS (
      UPDATE deliveries SET ${retryAssignments(sql, at)} FROM applied
      WHERE deliveries.project_id = ${projectId} AND deliveries.id = ${deliveryId}
    )`,
  problems: {
    ...plain(InstallationNotFound, WebhookReferenceInvalid),
    webhook_state_conflict: ({ faults: [fault = "pending"] }) =>
      new WebhookStateConflict({ detail: notRetriable[fault] ?? "The delivery can't be retried." })
  }
})
