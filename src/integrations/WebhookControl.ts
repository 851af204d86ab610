/** Webhooks for operators, who list, enable and disable them (contract §13). */
import { Context, Effect, Layer } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import type { InstallationId, ProjectId } from "../api/Ids.ts"
import type { EventType } from "../api/integrations/Events.ts"
import { audited, Operator } from "../platform/Audit.ts"
import { selected } from "../platform/Columns.ts"
import { Notifier } from "../platform/outbox/Notifier.ts"
import { type ProjectUnknown, requireProject } from "../platform/ProjectUnknown.ts"
import { type Found, pageOf, type Range } from "../platform/Search.ts"
import { type DisabledReason, disabling } from "./Deliveries/DeadLetter.ts"
import { recovered } from "./Deliveries/Health.ts"
import { WebhookUnknown } from "./WebhookUnknown.ts"

export interface Webhook {
  readonly installationId: InstallationId
  readonly endpointUrl: string
  readonly eventTypes: ReadonlyArray<EventType>
  readonly enabled: boolean
  /** Null if it is enabled. */
  readonly disabledReason: DisabledReason | null
  readonly consecutiveFailures: number
  readonly lastSuccessAt: string | null
  readonly version: number
}

type Switched = Effect.Effect<Webhook, ProjectUnknown | WebhookUnknown, Operator>

export class WebhookControl extends Context.Service<
  WebhookControl,
  {
    /** Lists the webhooks of a project by installation. */
    readonly list: (projectId: ProjectId, range: Range) => Effect.Effect<Found<Webhook>, ProjectUnknown>
    /** Enables a webhook; its endpoint is tried at once. An enabled webhook is unchanged. */
    readonly enable: (projectId: ProjectId, installationId: string) => Switched
    /** Disables a webhook and dead-letters its pending deliveries. A disabled webhook is unchanged. */
    readonly disable: (projectId: ProjectId, installationId: string) => Switched
  }
>()("developer-api/integrations/WebhookControl") {
  static readonly layer = Layer.effect(
    WebhookControl,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const notifier = yield* Notifier

      const switched = Effect.fnUntraced(function* (
        projectId: ProjectId,
        installationId: string,
        change: (endpoint: Endpoint, actor: string) => Effect.Effect<unknown>
      ) {
        yield* requireProject(sql, projectId)
        const found = Effect.orDie(webhooks(sql, projectId, sql`installation_id = ${installationId}`, 1))
        const [known] = yield* found
        if (known === undefined) return yield* new WebhookUnknown({ projectId, installationId })
        const { actor } = yield* Operator
        yield* change({ projectId, installationId: known.installationId }, actor)
        yield* notifier.changed(projectId, known.installationId)
        const [webhook = known] = yield* found
        return webhook
      })

      return {
        list: Effect.fn("WebhookControl.list")(function* (projectId, { after, limit }) {
          yield* requireProject(sql, projectId)
          const rows = yield* Effect.orDie(webhooks(sql, projectId, sql`installation_id > ${after ?? ""}`, limit + 1))
          return pageOf(rows, limit, ({ installationId }) => installationId)
        }),
        enable: Effect.fn("WebhookControl.enable")((projectId, installationId) =>
          switched(projectId, installationId, (endpoint, actor) => Effect.orDie(enable(sql, endpoint, actor)))
        ),
        disable: Effect.fn("WebhookControl.disable")((projectId, installationId) =>
          switched(projectId, installationId, (endpoint, actor) => Effect.orDie(disable(sql, endpoint, actor)))
        )
      }
    })
  )
}

interface Endpoint {
  readonly projectId: ProjectId
  readonly installationId: InstallationId
}

const columns = `
  ${selected({ installationId: "installation_id", endpointUrl: "endpoint_url", eventTypes: "event_types" })}, enabled,
  disabled_reason AS "disabledReason", health.failures AS "consecutiveFailures",
  ${selected({ lastSuccessAt: ["health.last_success_at", "timestamptz"] })}, webhooks.version`

const webhooks = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  which: Statement.Fragment,
  limit: number
) => sql<Webhook>`
  SELECT ${sql.literal(columns)} FROM webhooks, LATERAL (
    SELECT failures, last_success_at FROM endpoint_health
    WHERE project_id = webhooks.project_id AND installation_id = webhooks.installation_id OFFSET 0
  ) health
  WHERE project_id = ${projectId} AND ${which}
  ORDER BY installation_id LIMIT ${limit}::int`

const disable = (sql: SqlClient.SqlClient, endpoint: Endpoint, actor: string) => sql`
  WITH ${disabling(sql, endpoint, null, "operator")},
  ${audited(sql, { actor, action: "webhook.disable", target: endpoint.installationId }, "disabled")}
  SELECT FROM disabled`

const enable = (sql: SqlClient.SqlClient, { installationId, projectId }: Endpoint, actor: string) => sql`
  WITH enabled AS (
    UPDATE webhooks SET enabled = true, disabled_reason = NULL, version = version + 1
    WHERE project_id = ${projectId} AND installation_id = ${installationId} AND NOT enabled
    RETURNING project_id, installation_id
  ),
  unparked AS (
    UPDATE endpoint_health health SET ${sql.literal(recovered)} FROM enabled
    WHERE health.project_id = enabled.project_id AND health.installation_id = enabled.installation_id
  ),
  ${audited(sql, { actor, action: "webhook.enable", target: installationId }, "enabled")}
  SELECT FROM enabled`
