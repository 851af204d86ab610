/** The commands with which operators list, show, enable and disable webhooks (contract §13). */
import { Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { InstallationId, ProjectId } from "../api/schema/Ids.ts"
import { recordAction, Operator } from "../platform/operators/Audit.ts"
import { lookupOne } from "../platform/database/Lookups.ts"
import { Notifier } from "../platform/outbox/Notifier.ts"
import { ProjectUnknown, requireProject, servedProject } from "../platform/operators/ProjectUnknown.ts"
import { type Found, pageOf, type Range } from "../platform/operators/Search.ts"
import { disableWebhook } from "./deliveries/Disabling.ts"
import { recovered } from "./deliveries/States.ts"
import { type Details, details, list, type Listed } from "./endpoints/WebhookList.ts"
import { type CommandRefused, webhookUnknown } from "./CommandRefused.ts"

/** A disabled webhook, and the number of its deliveries that were pending and are dead-lettered. */
export interface Disabled {
  readonly webhook: Listed
  readonly deadLettered: number
}

type Failure = ProjectUnknown | CommandRefused

export class WebhookControl extends Context.Service<
  WebhookControl,
  {
    /** Lists the webhooks of a project by installation. */
    readonly list: (projectId: ProjectId, range: Range) => Effect.Effect<Found<Listed>, ProjectUnknown>
    /** Enables a webhook; its endpoint is tried at once. An enabled webhook is unchanged. */
    readonly enable: (projectId: ProjectId, installationId: string) => Effect.Effect<Listed, Failure, Operator>
    /** Disables a webhook and dead-letters its pending deliveries. A disabled webhook is unchanged. */
    readonly disable: (projectId: ProjectId, installationId: string) => Effect.Effect<Disabled, Failure, Operator>
    readonly show: (projectId: ProjectId, installationId: string) => Effect.Effect<Details, Failure>
  }
>()("developer-api/integrations/WebhookControl") {
  static readonly layer = Layer.effect(
    WebhookControl,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const notifier = yield* Notifier

      const known = Effect.fnUntraced(function* (projectId: ProjectId, installationId: string) {
        yield* requireProject(sql, projectId)
        const [webhook] = yield* Effect.orDie(list(sql, projectId, ofInstallation(sql, installationId), 1))
        return webhook ?? (yield* webhookUnknown(projectId, installationId))
      })

      /** Changes a webhook. `change` returns no row if this database does not serve the project. Returns the webhook and the row. */
      const changeWebhook = Effect.fnUntraced(function* <Row>(
        projectId: ProjectId,
        installationId: string,
        change: (endpoint: Endpoint, actor: string) => Effect.Effect<ReadonlyArray<Row>, SqlError.SqlError>
      ) {
        const { installationId: id } = yield* known(projectId, installationId)
        const { actor } = yield* Operator
        const [row] = yield* Effect.orDie(change({ projectId, installationId: id }, actor))
        if (row === undefined) return yield* new ProjectUnknown({ projectId })
        yield* notifier.changed(projectId, id)
        return { webhook: yield* known(projectId, id), row }
      })

      return {
        list: Effect.fn("WebhookControl.list")(function* (projectId, { after, limit }) {
          yield* requireProject(sql, projectId)
          const rows = yield* Effect.orDie(
            list(sql, projectId, sql`webhooks.installation_id > ${after ?? ""}`, limit + 1)
          )
          return pageOf(rows, limit, ({ installationId }) => installationId)
        }),
        enable: Effect.fn("WebhookControl.enable")(function* (projectId, installationId) {
          const { webhook } = yield* changeWebhook(projectId, installationId, (endpoint, actor) =>
            enable(sql, endpoint, actor)
          )
          return webhook
        }),
        disable: Effect.fn("WebhookControl.disable")(function* (projectId, installationId) {
          const { row, webhook } = yield* changeWebhook(projectId, installationId, (endpoint, actor) =>
            disable(sql, endpoint, actor)
          )
          return { webhook, deadLettered: row.deadLettered ?? 0 }
        }),
        show: Effect.fn("WebhookControl.show")(function* (projectId, installationId) {
          yield* requireProject(sql, projectId)
          const webhook = yield* Effect.orDie(lookupOne(sql, details(sql), { projectId, id: installationId }))
          return webhook ?? (yield* webhookUnknown(projectId, installationId))
        })
      }
    })
  )
}

interface Endpoint {
  readonly projectId: ProjectId
  readonly installationId: InstallationId
}

const ofInstallation = (sql: SqlClient.SqlClient, id: string) => sql`webhooks.installation_id = ${id}`

/** Disables a webhook, and counts its pending deliveries. Deliveries in flight are not counted: their attempts go on. */
const disable = (sql: SqlClient.SqlClient, endpoint: Endpoint, actor: string) => sql<{
  readonly deadLettered: number | null
}>`
  WITH ${servedProject(sql, endpoint.projectId)},
  ${disableWebhook(sql, endpoint, "operator", sql`EXISTS (SELECT FROM project)`)},
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
  SELECT dead_lettered AS "deadLettered" FROM project LEFT JOIN ended ON true`

const enable = (sql: SqlClient.SqlClient, { installationId, projectId }: Endpoint, actor: string) => sql`
  WITH ${servedProject(sql, projectId)},
  enabled AS (
    UPDATE webhooks SET enabled = true, disabled_reason = NULL, version = version + 1, updated_at = greatest(updated_at, now()),
      url_version = url_version + 1
    WHERE project_id = (SELECT project_id FROM project) AND installation_id = ${installationId} AND NOT enabled
    RETURNING project_id, installation_id, url_version
  ),
  unparked AS (
    UPDATE endpoint_health health SET ${sql.literal(recovered)}, url_version = enabled.url_version FROM enabled
    WHERE health.project_id = enabled.project_id AND health.installation_id = enabled.installation_id
  ),
  ${recordAction(sql, { actor, action: "webhook.enable", target: installationId }, "enabled")}
  SELECT FROM project`
