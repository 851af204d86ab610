/** The read model of webhooks: the columns that the API, the commands and the console show, with the health of the endpoint. */
import { Effect, Struct } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { InstallationId, ProjectId } from "../api/schema/Ids.ts"
import type { DeliveryAttempt } from "../api/integrations/Deliveries.ts"
import { pendingMax, type Webhook } from "../api/integrations/WebhookHealth.ts"
import { jsonObject, selectList } from "../sql/Columns.ts"
import { type LookupStatement, plannedOnce } from "../sql/Lookups.ts"
import { isAwake } from "../platform/MoveState.ts"
import type { Installation } from "../api/integrations/Installations.ts"
import { makeListById, pageConditionById, pageLimit } from "../http/pages/Pages.ts"

type Health = Webhook["health"]

/** The last failure of an endpoint. A failure that an earlier version of the service has stored lacks `responseBody`. */
type Failure = NonNullable<Health["lastFailure"]> & Partial<Pick<DeliveryAttempt, "responseBody">>

/** The condition of an endpoint for operators: the state of the API, or `behind` or `unproven`, which the API does not have. */
type Condition = Exclude<Health["state"], "unused"> | "behind" | "unproven"

interface Listed extends Omit<Webhook, "secrets" | "health">, Pick<Health, "state" | "failingSince" | "lastSuccessAt"> {
  readonly condition: Condition
  /** The name of the installation. */
  readonly name: string
  readonly failures: number
  readonly lastFailure: Failure | null
  readonly suspect: boolean
  readonly inFlight: number
  readonly parkedUntil: string | null
  readonly restingUntil: string | null
}

interface Details extends Listed, Pick<Webhook, "secrets">, Pick<Health, "pending" | "nextAttemptAt"> {
  readonly id: InstallationId
}

/** An SQL expression: the state of an endpoint as the API shows it. */
const state = `CASE
  WHEN failures = 0 AND last_success_at IS NULL AND last_failure IS NULL THEN 'unused'
  WHEN parked_until IS NOT NULL THEN 'parked'
  WHEN resting_until > now() THEN 'resting'
  WHEN failures > 0 THEN 'failing'
  ELSE 'healthy'
END`

/**
 * An SQL condition over `endpoint_health` and `due`, the time at which the endpoint's first delivery was due: the delivery has
 * waited for more than a minute although the answers of the endpoint asked for no pause. The endpoint is slow, or no worker sends.
 */
const isBehind = `(due IS NOT NULL AND greatest(due, parked_until, resting_until) < now() - interval '1 minute')`

/** An SQL expression: the `Condition`. An endpoint is unproven while no attempt has succeeded since its webhook was changed. */
const condition = `CASE
  WHEN ${isBehind} THEN 'behind'
  WHEN failures = 0 AND coalesce(last_success_at < webhooks.updated_at, true) THEN 'unproven'
  ELSE ${state}
END`

/**
 * An SQL expression over `webhooks` and `endpoint_health`: the time of the next attempt of a delivery that is due at `due`. It
 * is not before the end of the endpoint's pause or of a `Retry-After`, and not in the past. Null if `due` is null or the webhook
 * is disabled.
 */
export const nextAttemptAt = (due: string) => `CASE WHEN enabled AND ${due} IS NOT NULL
  THEN greatest(${due}, parked_until, resting_until, date_trunc('milliseconds', now())) AT TIME ZONE 'UTC' END`

const columns = `${selectList({
  installationId: "webhooks.installation_id",
  name: "installations.name",
  endpointUrl: "endpoint_url",
  eventTypes: "event_types",
  headerNames: "header_names",
  enabled: "enabled",
  disabledReason: "disabled_reason",
  version: "webhooks.version",
  updatedAt: ["webhooks.updated_at", "timestamptz"],
  failures: "failures",
  failingSince: ["failing_since", "timestamptz"],
  lastSuccessAt: ["last_success_at", "timestamptz"],
  lastFailure: "last_failure",
  suspect: "suspect",
  inFlight: "in_flight",
  parkedUntil: ["parked_until", "timestamptz"],
  restingUntil: ["resting_until", "timestamptz"]
})}, ${state} AS state, ${condition} AS condition`

/** The pending and leased deliveries of a webhook, in the order of the index `deliveries_open`. */
const open = (more: string) => `FROM deliveries
  WHERE deliveries.project_id = health.project_id AND deliveries.installation_id = health.installation_id
    AND finished_at IS NULL AND available_at >= health.open_from ${more}
  ORDER BY available_at, deliveries.id`

/** The earliest due time of the pending deliveries. If all open deliveries are in flight, their earliest due time. */
const due = `(
  SELECT coalesce((SELECT available_at ${open("AND status = 'pending'")} LIMIT 1), (SELECT available_at ${open("")} LIMIT 1)) AS due
)`

const webhook = `LATERAL (
    SELECT * FROM webhooks WHERE project_id = health.project_id AND installation_id = health.installation_id OFFSET 0
  ) webhooks`

const installation = `LATERAL (
    SELECT name FROM installations WHERE project_id = webhooks.project_id AND id = webhooks.installation_id OFFSET 0
  ) installations`

/** A parked endpoint, and the delivery that is its next probe. */
export interface Probe {
  readonly installationId: InstallationId
  readonly deliveryId: string | null
}

/** Lists the parked endpoints among the given installations. Their other deliveries wait until a probe succeeds. */
export const listProbes = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  installations: ReadonlyArray<string>
) => sql<Probe>`
  SELECT installation_id AS "installationId", (SELECT deliveries.id ${sql.literal(open(""))} LIMIT 1) AS "deliveryId"
  FROM endpoint_health health
  WHERE project_id = ${projectId} AND installation_id = ANY(${[...new Set(installations)]}::text[]) AND parked_until IS NOT NULL`

export const list = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  which: Statement.Fragment,
  limit: number
) => sql<Listed>`
  SELECT ${sql.literal(columns)} FROM webhooks, LATERAL (
    SELECT * FROM endpoint_health WHERE project_id = webhooks.project_id AND installation_id = webhooks.installation_id
    OFFSET 0
  ) health, ${sql.literal(installation)}, LATERAL ${sql.literal(due)} queue
  WHERE webhooks.project_id = ${projectId} AND ${which}
  ORDER BY webhooks.installation_id LIMIT ${limit}::int`

export interface FailingEndpoint extends Listed, Pick<Health, "pending" | "nextAttemptAt"> {
  readonly projectId: ProjectId
  /** Seconds since the first failure of the current period of failures. */
  readonly failingSeconds: number
  /** The number of failing endpoints, at most `failingMax`. */
  readonly total: number
}

export const failingMax = 1_000

/** Lists failing endpoints of enabled webhooks, the longest failing first. Reads the index `endpoint_health_failing`. */
export const listFailing = (sql: SqlClient.SqlClient, limit: number) => sql<FailingEndpoint>`
  SELECT webhooks.project_id AS "projectId", ${sql.literal(columns)}, ${sql.literal(pending)}, total,
    extract(epoch FROM now() - failing_since)::float8 AS "failingSeconds"
  FROM (
    SELECT *, count(*) OVER ()::int AS total FROM (
      SELECT * FROM endpoint_health WHERE failing_since IS NOT NULL AND ${isAwake(sql, "project_id")}
      ORDER BY failing_since, project_id, installation_id LIMIT ${failingMax}::int
    ) failing
    WHERE (
      SELECT enabled FROM webhooks WHERE project_id = failing.project_id AND installation_id = failing.installation_id
    )
    ORDER BY failing_since, project_id, installation_id LIMIT ${limit}::int
  ) health, ${sql.literal(`${webhook}, ${installation}`)}, LATERAL ${sql.literal(due)} queue
  ORDER BY failing_since, webhooks.project_id, webhooks.installation_id`

export interface DueEndpoint extends Listed {
  readonly projectId: ProjectId
  /** For how many seconds the first delivery has been due. */
  readonly dueSeconds: number
  /** The `dueSeconds` of the delivery that has waited longest of all, whatever its endpoint does. */
  readonly oldestSeconds: number
  /** The number of endpoints that are behind. */
  readonly behind: number
}

/** A delivery is shown as overdue to operators when it has been due for this many seconds. */
export const overdueAfter = 5

/** Maximum number of endpoints that `listDue` reads. */
const endpointsMax = 100_000

/** Lists endpoints with a due delivery: first those that are behind, then by its due time. */
export const listDue = (sql: SqlClient.SqlClient, limit: number) => sql<DueEndpoint>`
  SELECT webhooks.project_id AS "projectId", ${sql.literal(columns)}, extract(epoch FROM now() - due)::float8 AS "dueSeconds",
    extract(epoch FROM now() - oldest)::float8 AS "oldestSeconds", behind
  FROM (
    SELECT *, min(due) OVER () AS oldest, (count(*) FILTER (WHERE ${sql.literal(isBehind)}) OVER ())::int AS behind
    FROM (
      SELECT * FROM endpoint_health ORDER BY project_id, installation_id LIMIT ${endpointsMax}::int
    ) health, LATERAL (SELECT available_at AS due ${sql.literal(open("AND status = 'pending'"))} LIMIT 1) queue
    WHERE due <= now() AND ${isAwake(sql, "project_id")}
    ORDER BY ${sql.literal(isBehind)} DESC, due, project_id, installation_id LIMIT ${limit}::int
  ) health, ${sql.literal(`${webhook}, ${installation}`)}
  ORDER BY ${sql.literal(isBehind)} DESC, due, webhooks.project_id, webhooks.installation_id`

const secret = jsonObject(
  {
    createdAt: ["created_at", "timestamptz"],
    signsUntil: ["until", "timestamptz"]
  },
  "secret"
)

/**
 * Two columns over `webhooks`, `health` and `queue`: the number of open deliveries, at most `pendingMax`, and the time of the
 * next attempt.
 */
const pending = `(
  SELECT count(*)::int FROM (SELECT ${open("")} LIMIT ${pendingMax}) counted
) AS pending, ${nextAttemptAt("due")} AS "nextAttemptAt"`

const secrets = `(
  SELECT coalesce(json_agg(${secret} ORDER BY version DESC), '[]') FROM (
    SELECT version, created_at, nullif(retires_at, 'infinity') AS until FROM webhook_secrets
    WHERE project_id = webhooks.project_id AND installation_id = webhooks.installation_id AND retires_at > now()
  ) secret
) AS secrets`

export const details =
  (sql: SqlClient.SqlClient): LookupStatement<Details> =>
  (key) =>
    sql`
    SELECT webhooks.installation_id AS id, ${sql.literal(columns)}, ${sql.literal(secrets)}, ${sql.literal(pending)} FROM ${key}
      LEFT JOIN webhooks ON webhooks.project_id = key.project_id AND webhooks.installation_id = key.id
      LEFT JOIN endpoint_health health
        ON health.project_id = webhooks.project_id AND health.installation_id = webhooks.installation_id
      LEFT JOIN installations
        ON installations.project_id = webhooks.project_id AND installations.id = webhooks.installation_id,
      LATERAL ${sql.literal(due)} queue
    WHERE ${sql.literal(plannedOnce)}
    ORDER BY ordinal`

const shown = ["installationId", "endpointUrl", "eventTypes", "headerNames", "enabled", "disabledReason"] as const

/** A webhook as commands print it (contract §13). */
export const webhookItemOf = (webhook: Listed) => ({
  ...Struct.pick(webhook, shown),
  state: webhook.condition,
  consecutiveFailures: webhook.failures,
  lastSuccessAt: webhook.lastSuccessAt,
  version: webhook.version
})

/** A webhook as the API answers it (contract §10). */
export const webhookOf = ({ lastFailure, ...webhook }: Details): Webhook => ({
  ...Struct.pick(webhook, [...shown, "version", "updatedAt", "secrets"]),
  health: {
    state: webhook.state,
    failuresInARow: webhook.failures,
    failingSince: webhook.failingSince,
    lastSuccessAt: webhook.lastSuccessAt,
    nextAttemptAt: webhook.nextAttemptAt,
    pending: webhook.pending,
    lastFailure: lastFailure && {
      at: lastFailure.at,
      statusCode: lastFailure.statusCode,
      errorCode: lastFailure.errorCode
    }
  }
})

export const makeListInstallations = makeListById(
  "listInstallations",
  (sql, projectId, window) => sql<Installation>`
  SELECT id, name, profile_version AS "profileVersion", (
    SELECT json_build_object('enabled', enabled, 'version', version) FROM webhooks
    WHERE project_id = ${projectId} AND installation_id = installations.id
  ) AS webhook
  FROM installations
  WHERE project_id = ${projectId} ${pageConditionById(sql, window.after)}
  ORDER BY id ${pageLimit(sql, window)}`
)

export const installationExists = (sql: SqlClient.SqlClient, projectId: ProjectId, id: string) =>
  Effect.map(sql`SELECT FROM installations WHERE project_id = ${projectId} AND id = ${id}`, (rows) => rows.length > 0)
