/** The statements of the replays that operators and callers start, and that operators cancel. */
import type { SqlClient, Statement } from "effect/sql"
import type { InstallationId, ProjectId } from "../../../api/schema/Ids.ts"
import type { EventType } from "../../../api/integrations/Events.ts"
import {
  emptyPeriod,
  type ReplayCreate,
  type ReplayFilter,
  type ReplayState
} from "../../../api/integrations/Replays.ts"
import { recordAction } from "../../../operators/Audit.ts"
import { firstIdAt } from "../../../platform/NewId.ts"
import { servedProject } from "../../../operators/Refusals.ts"
import { InstallationNotFound, ValidationFailed, WebhookStateConflict } from "../../../api/Problems.ts"
import { type Mutation, plain } from "../../../commands/Command.ts"
import { installationAndWebhook, notRetriable } from "../Deliveries.ts"

type Sql = SqlClient.SqlClient

export const webhook = (sql: Sql, projectId: ProjectId, installationId: string) => sql<{
  readonly enabled: boolean
  readonly eventTypes: ReadonlyArray<EventType>
}>`
  SELECT enabled, event_types AS "eventTypes" FROM webhooks WHERE project_id = ${projectId} AND installation_id = ${installationId}`

interface Period {
  readonly id: string
  readonly installationId: string
  /** Events of this time or later. */
  readonly since: Date
  /** Events before this time. */
  readonly until: Date
  readonly filter: ReplayFilter
}

/** An INSERT of a running replay for the row of `from`, which has a `project_id`. `types` is an expression of its event types. */
const insert = (
  sql: Sql,
  { filter, id, installationId, since, until }: Period,
  types: Statement.Fragment,
  from: string
) => sql`
    INSERT INTO replays (project_id, id, installation_id, since, until, event_types, status, state, position, created_at)
    SELECT project_id, ${id}::text, ${installationId}::text, ${since}::timestamptz, ${until}::timestamptz, ${types},
      ${filter}::text, 'running', ${firstIdAt("evt", since.getTime())}::text, now()
    FROM ${sql(from)}`

interface Start extends Period {
  readonly projectId: ProjectId
  readonly eventTypes: ReadonlyArray<EventType>
  readonly actor: string
}

/** Starts a replay, unless a replay with this id exists. Returns no row if this database does not serve the project. */
export const start = (sql: Sql, { actor, projectId, ...replay }: Start) => {
  const { filter, id, ...range } = replay
  return sql`
    WITH ${servedProject(sql, projectId)},
    started AS (
      ${insert(sql, replay, sql`${[...range.eventTypes]}::text[]`, "project")}
      ON CONFLICT (project_id, id) DO NOTHING
      RETURNING project_id
    ),
    ${recordAction(sql, { actor, action: "replay.start", target: id, detail: { ...range, status: filter } }, "started")}
    SELECT FROM project`
}

/**
 * Cancels a running replay. A replay in another state stays unchanged. Returns the state before. Returns no row if the replay
 * does not exist, or if this database does not serve the project.
 */
export const cancel = (sql: Sql, actor: string, projectId: ProjectId, id: string) => sql<{
  readonly state: ReplayState
  readonly made: number
}>`
  WITH ${servedProject(sql, projectId)},
  target AS MATERIALIZED (
    SELECT state, made FROM project JOIN replays USING (project_id) WHERE id = ${id} FOR NO KEY UPDATE OF replays
  ),
  cancelled AS (
    UPDATE replays SET state = 'cancelled', finished_at = now() FROM target
    WHERE replays.project_id = ${projectId} AND replays.id = ${id} AND target.state = 'running'
    RETURNING replays.project_id
  ),
  ${recordAction(sql, { actor, action: "replay.cancel", target: id }, "cancelled")}
  SELECT state, made FROM target`

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
