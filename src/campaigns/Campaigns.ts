/**
 * Campaigns: messages to many clients, composed and scheduled by commands (contract §9). `CampaignList.ts` has what is read of them. Also the
 * segments (named lists of clients) and the templates of messages, which project files create.
 */
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { CampaignStatusFilter } from "../api/campaigns/Campaign.ts"
import type { CampaignCommand, CampaignCreate } from "../api/campaigns/Commands.ts"
import { AudienceId, CampaignId, type ProjectId } from "../api/schema/Ids.ts"
import { CampaignNotFound, type IdempotencyKeyReused, type ServiceUnavailable } from "../api/Problems.ts"
import { LongRunning, mutate, Mutations } from "../commands/Mutations.ts"
import { statement } from "../sql/Database.ts"
import type { Command, Outcome } from "../commands/Command.ts"
import { makeGrouped } from "../commands/Grouped.ts"
import { lookupBy } from "../sql/Lookups.ts"
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
import { campaignOf, details, list, readAudience } from "./CampaignList.ts"
import { type Conflict, create, duplicate, remove } from "./CommandStatement.ts"
import { columnsOf, selectList } from "../sql/Columns.ts"
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
    audience: Effect.fnUntraced(function* (projectId: ProjectId, id: CampaignId) {
      const [campaign] = yield* statement(readAudience(sql, projectId, id))
      return campaign ?? (yield* new CampaignNotFound())
    }),
    create: Effect.fnUntraced(function* (command: Command, { name }: CampaignCreate) {
      const id = CampaignId.make(yield* newId("cmp"))
      return yield* creating(command, yield* DateTime.nowAsDate, { id, name })
    }),
    run
  }
})

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
