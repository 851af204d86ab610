/** The commands with which operators list, show, enable and disable webhooks (contract §13). */
import { Effect } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { recordAction } from "../operating/Audit.ts"
import { actByStatement } from "../operating/AuditedActions.ts"
import { Notifier } from "../outbox/Outbox.ts"
import { servedProject } from "../operating/Refusals.ts"
import { makeList, makeShow } from "../operating/Lists.ts"
import { disableChosen } from "./delivery/Disabling.ts"
import { type Endpoint, recovered } from "./Endpoint.ts"
import { details, list } from "./WebhookList.ts"

export const listWebhooks = makeList(
  "listWebhooks",
  (sql, projectId, { after, limit }) => list(sql, projectId, sql`webhooks.installation_id > ${after ?? ""}`, limit + 1),
  ({ installationId }) => installationId
)

export const showWebhook = makeShow("showWebhook", "webhook for installation", details)

/** `deadLettered` does not count deliveries in flight, because their attempts go on. */
const disable = (sql: SqlClient.SqlClient, endpoint: Endpoint, actor: string) => sql<{
  readonly deadLettered: number
}>`
  WITH ${servedProject(sql, endpoint.projectId)},
  chosen AS (SELECT project_id, ${endpoint.installationId}::text AS installation_id FROM project),
  ${disableChosen(sql, "operator")},
  ended AS (
    SELECT project_id, (
      SELECT count(*)::int FROM deliveries
      WHERE project_id = disabled.project_id AND installation_id = disabled.installation_id
        AND finished_at IS NULL AND status = 'pending'
    ) AS dead_lettered FROM disabled
  ),
  ${recordAction(
    sql,
    {
      actor,
      action: "webhook.disable",
      target: endpoint.installationId,
      columns: { deadLettered: "dead_lettered" }
    },
    "ended"
  )}
  SELECT coalesce(dead_lettered, 0) AS "deadLettered" FROM project LEFT JOIN ended ON true`

const enable = (sql: SqlClient.SqlClient, { installationId, projectId }: Endpoint, actor: string) => sql`
  WITH ${servedProject(sql, projectId)},
  enabled AS (
    UPDATE webhooks SET enabled = true, disabled_reason = NULL, version = version + 1, updated_at = greatest(updated_at, now())
    WHERE project_id = (SELECT project_id FROM project) AND installation_id = ${installationId} AND NOT enabled
    RETURNING project_id, installation_id
  ),
  unparked AS (
    UPDATE endpoint_health health SET ${sql.literal(recovered)} FROM enabled
    WHERE health.project_id = enabled.project_id AND health.installation_id = enabled.installation_id
  ),
  ${recordAction(sql, { actor, action: "webhook.enable", target: installationId }, "enabled")}
  SELECT FROM project`

/** Makes a function that changes a webhook. `change` returns no row if this database does not serve the project. */
const changing = <Row extends object>(
  name: string,
  change: (sql: SqlClient.SqlClient, endpoint: Endpoint, actor: string) => Statement.Statement<Row>
) =>
  Effect.fn(name)(function* (projectId: ProjectId, installation: string) {
    const { installationId } = yield* showWebhook(projectId, installation)
    const row = yield* actByStatement({ projectId, kind: "webhook for installation", id: installation }, (sql, actor) =>
      change(sql, { projectId, installationId }, actor)
    )
    yield* (yield* Notifier).changed(projectId, installationId)
    return { ...row, webhook: yield* showWebhook(projectId, installation) }
  })

/** Enables a webhook; its endpoint is tried at once. No change if the webhook is enabled already. */
export const enableWebhook = changing("enableWebhook", enable)

/** `deadLettered` is the number of pending deliveries, which are dead-lettered soon; 0 if the webhook was disabled already. */
export const disableWebhook = changing("disableWebhook", disable)
