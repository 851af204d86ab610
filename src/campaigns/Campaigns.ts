/**
 * Campaigns: messages to many clients, composed and scheduled by commands (contract §9), with the progress of their recipients. Also the
 * segments (named lists of clients) and the templates of messages, which project files create.
 */
import { DateTime, Effect, Struct } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { type Campaign, type CampaignStatusFilter, failuresMax, type Progress } from "../api/campaigns/Campaign.ts"
import type { CampaignCommand, CampaignCreate } from "../api/campaigns/Commands.ts"
import { AudienceId, CampaignId, type ProjectId } from "../api/schema/Ids.ts"
import { CampaignNotFound, type IdempotencyKeyReused, type ServiceUnavailable } from "../api/Problems.ts"
import { LongRunning, mutate, Mutations } from "../commands/Mutations.ts"
import { statement } from "../sql/Database.ts"
import type { Command, Outcome } from "../commands/Command.ts"
import { makeGrouped } from "../commands/Grouped.ts"
import { lookupBy, type LookupStatement, plannedOnce } from "../sql/Lookups.ts"
import { newId } from "../platform/Ids.ts"
import { eventContext } from "../outbox/Outbox.ts"
import {
  makeListById,
  pageCondition,
  pageConditionByVersion,
  pageLimit,
  type PageQuery,
  Pages,
  type Window
} from "../http/pages/Pages.ts"
import { change, changeOf, scheduling } from "./Changes.ts"
import { freeze } from "./Campaigns/Freeze.ts"
import { type Conflict, create, current, duplicate, remove } from "./Commands.ts"
import { columnsOf, selectList } from "../sql/Columns.ts"
import { pageOf, type Range } from "../operating/Lists.ts"
import { Segment, Template } from "../api/campaigns/Campaigns.ts"

export const makeCampaigns = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  const pages = yield* Pages
  const find = lookupBy(sql, details(sql))
  const longRunning = yield* LongRunning
  const creating = makeGrouped(mutations, create(sql))

  /**
   * Runs the command in the body, if `api/campaigns/Commands.ts` allows it in the campaign's state. Local times are in `timeZone`
   * or, if the project has changed its zone meanwhile, in the new zone.
   */
  const run = Effect.fnUntraced(function* (
    command: Command,
    id: CampaignId,
    body: CampaignCommand,
    timeZone: string
  ): Effect.fn.Return<Outcome, Conflict | IdempotencyKeyReused | ServiceUnavailable> {
    const { projectId } = command
    const cause = yield* eventContext(projectId)
    switch (body.operation) {
      case "delete":
        return yield* mutate(mutations, command, remove(sql, projectId, id, body, cause.at))
      case "duplicate": {
        const copy = CampaignId.make(yield* newId("cmp"))
        return yield* mutate(mutations, command, duplicate(sql, projectId, id, copy, body, cause.at))
      }
      case "freeze_audience": {
        const audienceId = AudienceId.make(yield* newId("aud"))
        const frozen = freeze(longRunning.mutations.sql, projectId, id, audienceId, body.filter, cause.at)
        return yield* longRunning.withLongTimeout(mutate(longRunning.mutations, command, frozen))
      }
      default: {
        const wanted = body.operation === "schedule" ? scheduling(body, timeZone, cause.at) : changeOf(body)
        return yield* mutate(mutations, command, change(sql, projectId, id, wanted, cause)).pipe(
          Effect.catchTag("ZoneChanged", (changed) => run(command, id, body, changed.timeZone))
        )
      }
    }
  })

  return {
    list: (projectId: ProjectId, { status, ...query }: PageQuery & { readonly status: CampaignStatusFilter }) =>
      pages.read({ projectId, operation: "listCampaigns", filters: { status } }, query, (window) =>
        Effect.map(
          statement(
            list(
              sql,
              projectId,
              sql`${sql.literal(status === "all" ? "" : `AND campaigns.status = '${status}'`)}
                ${pageCondition(sql, window.after)}
                ORDER BY created_at DESC, id DESC ${pageLimit(sql, window)}`
            )
          ),
          (found) => found.map(campaignOf)
        )
      ),
    get: (projectId: ProjectId, id: CampaignId) =>
      Effect.flatMap(find({ projectId, id }), (found) =>
        found === undefined ? Effect.fail(new CampaignNotFound()) : Effect.succeed(campaignOf(found))
      ),
    current: Effect.fnUntraced(function* (projectId: ProjectId, id: CampaignId) {
      const [campaign] = yield* statement(current(sql, projectId, id))
      return campaign ?? (yield* new CampaignNotFound())
    }),
    create: Effect.fnUntraced(function* (command: Command, { name }: CampaignCreate) {
      const id = CampaignId.make(yield* newId("cmp"))
      return yield* creating(command, yield* DateTime.nowAsDate, { id, name })
    }),
    run
  }
})

export interface Listed extends Campaign {
  /** The number of recipients in the audience; null without an audience. */
  readonly eligible: number | null
}

/** SQL for the primary or fallback route; null if the route has neither a template nor a channel. */
const route = (kind: "primary" | "fallback") => `CASE
  WHEN num_nonnulls(${kind}_template_id, ${kind}_channel_id) > 0 THEN json_build_object(
    'templateId', ${kind}_template_id, 'templateVersion', ${kind}_template_version, 'channelId', ${kind}_channel_id
  ) END`

const noProgress: Progress = { recipients: 0, pending: 0, sent: 0, failed: 0, unknown: 0, skipped: 0, failures: [] }

/**
 * The numbers of recipients by state; zeros until the campaign runs. The trigger `count_recipients()` updates the counts of the
 * audience.
 */
const progress = `CASE WHEN hasRun AND sent_count IS NOT NULL THEN json_build_object('recipients', eligible_count,
    'pending', eligible_count - sent_count - failed_count - unknown_count - skipped_count,
    'sent', sent_count, 'failed', failed_count, 'unknown', unknown_count, 'skipped', skipped_count, 'failures', (
      SELECT coalesce(json_agg(json_build_object('errorCode', code, 'count', number) ORDER BY number DESC, code), '[]') FROM (
        SELECT key AS code, value::int AS number FROM jsonb_each_text(failures) ORDER BY value::int DESC, key LIMIT ${failuresMax}
      ) most
    ))
  ELSE '${JSON.stringify(noProgress)}'::json END`

/** SQL for the zone of the schedule. An earlier version has stored none. */
const timeZone = `coalesce(campaigns.time_zone, CASE WHEN campaigns.scheduled_for IS NOT NULL THEN (
  SELECT time_zone FROM projects WHERE projects.project_id = campaigns.project_id
) END)`

const audience = `
  LEFT JOIN LATERAL (
    SELECT eligible_count, sent_count, failed_count, unknown_count, skipped_count, failures FROM audiences
    WHERE audiences.project_id = campaigns.project_id AND audiences.id = campaigns.audience_id OFFSET 0
  ) audience ON true
  CROSS JOIN LATERAL (
    SELECT campaigns.started_at IS NOT NULL OR campaigns.status IN ('running', 'completed')
      OR campaigns.paused_from = 'running' AS hasRun
  ) course`

/** The columns of a campaign in the order of the contract, then the column that only operators see. */
const columns = selectList({
  id: "campaigns.id",
  name: "campaigns.name",
  status: "campaigns.status",
  primaryRoute: route("primary"),
  fallbackRoute: route("fallback"),
  scheduledForLocal: "campaigns.scheduled_for_local",
  timeZone,
  scheduledAt: ["campaigns.scheduled_for", "timestamptz"],
  sendsPerMinute: "campaigns.sends_per_minute",
  startedAt: ["campaigns.started_at", "timestamptz"],
  endedAt: [
    "CASE WHEN campaigns.status IN ('completed', 'cancelled') THEN coalesce(ended_at, updated_at) END",
    "timestamptz"
  ],
  progress,
  version: "campaigns.version",
  createdAt: ["campaigns.created_at", "timestamptz"],
  updatedAt: ["campaigns.updated_at", "timestamptz"],
  eligible: "eligible_count"
})

/** Reads campaigns of a project: `which` is a condition, an order and a limit. */
export const list = (sql: SqlClient.SqlClient, projectId: ProjectId, which: Statement.Fragment) => sql<Listed>`
  SELECT ${sql.literal(columns)} FROM campaigns ${sql.literal(audience)}
  WHERE campaigns.project_id = ${projectId} ${which}`

export const details =
  (sql: SqlClient.SqlClient): LookupStatement<Listed> =>
  (key) =>
    sql`
    SELECT ${sql.literal(columns)} FROM ${key}
      LEFT JOIN campaigns ON campaigns.project_id = key.project_id AND campaigns.id = key.id
      ${sql.literal(audience)}
    WHERE ${sql.literal(plannedOnce)}
    ORDER BY ordinal`

interface Failed {
  readonly position: number
  readonly clientId: string
  readonly client: string | null
  readonly errorCode: string
  readonly messageId: string | null
  readonly retries: number
}

/**
 * Lists the failed recipients of an audience by error code, then in the order of the audience. Reads the index
 * `campaign_recipients_failed`. `after` is the `position` of the last recipient of the page before.
 */
export const listFailed = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  campaignId: string,
  errorCode: string | null,
  { after, limit }: Range
) => {
  const code = sql.literal("coalesce(error_code, 'unknown')")
  const last = Number(after)
  const later =
    after === null || !Number.isInteger(last)
      ? sql.literal("")
      : sql`AND (${code}, position) > ((
          SELECT ${code} FROM campaign_recipients
          WHERE project_id = ${projectId} AND audience_id = audience.id AND position = ${last}::int
        ), ${last}::int)`
  return sql<Failed>`
    SELECT position, client_id AS "clientId", error_code AS "errorCode", message_id AS "messageId", retries, (
        SELECT display_name FROM clients WHERE project_id = ${projectId} AND id = client_id
      ) AS client
    FROM (SELECT audience_id AS id FROM campaigns WHERE project_id = ${projectId} AND id = ${campaignId}) audience, LATERAL (
      SELECT position, client_id, ${code} AS error_code, message_id, retries FROM campaign_recipients
      WHERE project_id = ${projectId} AND audience_id = audience.id AND status = 'failed'
        ${errorCode === null ? sql.literal("") : sql`AND ${code} = ${errorCode}`} ${later}
      ORDER BY ${code}, position LIMIT ${limit + 1}::int
    ) failed
    ORDER BY error_code, position`.pipe(Effect.map((rows) => pageOf(rows, limit, ({ position }) => String(position))))
}

const campaignOf = (listed: Listed): Campaign => Struct.omit(listed, ["eligible"])

export const makeListSegments = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  return (projectId: ProjectId, query: PageQuery) =>
    pages.read({ projectId, operation: "listSegments", filters: {} }, query, (window) =>
      statement(segments(sql, projectId, window))
    )
})

const segment = selectList(columnsOf(Segment.fields, { contactCount: "integer" }))

const segments = (sql: SqlClient.SqlClient, projectId: ProjectId, window: Window) => sql<Segment>`
  SELECT ${sql.literal(segment)} FROM segments
  WHERE project_id = ${projectId} ${pageCondition(sql, window.after)}
  ORDER BY created_at DESC, id DESC
  ${pageLimit(sql, window)}`

const template = selectList(columnsOf(Template.fields, { version: "bigint" }))

export const makeListTemplates = makeListById(
  "listTemplates",
  (sql, projectId, window) => sql<Template>`
  SELECT ${sql.literal(template)} FROM templates
  WHERE project_id = ${projectId} AND id > '' ${pageConditionByVersion(sql, window.after)}
  ORDER BY id, -version ${pageLimit(sql, window)}`
)
