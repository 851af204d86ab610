/** Campaigns: messages to many clients, composed and scheduled by commands (contract §9). */
import { DateTime, Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { CampaignStatusFilter } from "../api/campaigns/Campaign.ts"
import type { CampaignCommand, CommandOf } from "../api/campaigns/Commands.ts"
import { AudienceId, CampaignId, type ProjectId } from "../api/schema/Ids.ts"
import type { IdempotencyKeyReused, ServiceUnavailable } from "../api/Problems.ts"
import { LongRunning } from "../platform/mutations/LongRunning.ts"
import { statement } from "../platform/database/Database.ts"
import type { Command, Outcome } from "../platform/mutations/Idempotency.ts"
import { mutate } from "../platform/mutations/Mutate.ts"
import { Mutations } from "../platform/mutations/Mutations.ts"
import { lookupBy } from "../platform/database/Lookups.ts"
import { newId } from "../platform/NewId.ts"
import { eventContext } from "../platform/outbox/Outbox.ts"
import { pageCondition, pageLimit, type PageQuery, Pages } from "../platform/requests/Pages.ts"
import { campaignOf, details, list } from "./CampaignList.ts"
import { change, changeOf, scheduling, type Start } from "./Campaigns/Changes.ts"
import { freeze } from "./Campaigns/Freeze.ts"
import { current, duplicate, remove } from "./Campaigns/Repo.ts"
import { campaign_not_found, type Conflict } from "./Campaigns/Target.ts"
import { instantOf } from "./Schedule.ts"

type Problem = Conflict | IdempotencyKeyReused | ServiceUnavailable

/** Makes the operations on campaigns. */
export const makeCampaigns = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  const pages = yield* Pages
  const find = lookupBy(sql, details(sql))
  const longRunning = yield* LongRunning

  const schedule = (
    command: Command,
    id: CampaignId,
    body: CommandOf<"schedule">,
    timeZone: string
  ): Effect.Effect<Outcome, Problem> =>
    Effect.gen(function* () {
      const cause = yield* eventContext(command.projectId)
      const scheduled = scheduling(body, startOf(body.scheduledForLocal, timeZone, cause.at))
      return yield* mutate(mutations, command, change(sql, command.projectId, id, scheduled, cause))
    }).pipe(Effect.catchTag("ZoneChanged", (changed) => schedule(command, id, body, changed.timeZone)))

  return {
    /** Lists campaigns, newest first, up to `limit` on a page. */
    list: (projectId: ProjectId, { status, ...query }: PageQuery & { readonly status: CampaignStatusFilter }) =>
      pages.read({ projectId, operation: "listCampaigns", filters: { status } }, query, (window) =>
        Effect.map(
          statement(
            list(
              sql,
              projectId,
              sql`${sql.literal(status === "all" ? "" : `AND campaigns.status = '${status}'`)}
                ${pageCondition(sql, "campaigns", projectId, window.after)}
                ORDER BY created_at DESC, id DESC ${pageLimit(sql, window)}`
            )
          ),
          (found) => found.map(campaignOf)
        )
      ),
    get: (projectId: ProjectId, id: CampaignId) =>
      Effect.flatMap(find({ projectId, id }), (found) =>
        found === undefined ? Effect.fail(campaign_not_found()) : Effect.succeed(campaignOf(found))
      ),
    /** Returns the campaign's version and the audience that it froze last. */
    current: Effect.fnUntraced(function* (projectId: ProjectId, id: CampaignId) {
      const [campaign] = yield* statement(current(sql, projectId, id))
      return campaign ?? (yield* campaign_not_found())
    }),
    /**
     * Runs the command of the body, if the moves of `api/campaigns/States.ts` allow it. Local times are in `timeZone`, or in the
     * new zone if the project has changed its zone meanwhile.
     */
    run: Effect.fnUntraced(function* (
      command: Command,
      id: CampaignId,
      body: CampaignCommand,
      timeZone: string
    ): Effect.fn.Return<Outcome, Problem> {
      const { projectId } = command
      switch (body.operation) {
        case "delete":
          return yield* mutate(mutations, command, remove(sql, projectId, id, body, yield* DateTime.nowAsDate))
        case "duplicate": {
          const copy = CampaignId.make(yield* newId("cmp"))
          return yield* mutate(mutations, command, duplicate(sql, projectId, id, copy, body, yield* DateTime.nowAsDate))
        }
        case "freeze_audience": {
          const audienceId = AudienceId.make(yield* newId("aud"))
          const frozen = freeze(
            longRunning.mutations.sql,
            projectId,
            id,
            audienceId,
            body.filter,
            yield* DateTime.nowAsDate
          )
          return yield* longRunning.withLongTimeout(mutate(longRunning.mutations, command, frozen))
        }
        case "schedule":
          return yield* schedule(command, id, body, timeZone)
        default: {
          const changed = change(sql, projectId, id, changeOf(body), yield* eventContext(projectId))
          // Only `schedule` reads a local time, so `ZoneChanged` is a defect here.
          return yield* mutate(mutations, command, changed).pipe(Effect.catchTag("ZoneChanged", Effect.die))
        }
      }
    })
  }
})

const startOf = (local: string | null, timeZone: string, now: Date): Start => {
  if (local === null) return { at: now, fault: null, timeZone: null }
  return Result.match(instantOf(local, timeZone, now), {
    onFailure: (fault) => ({ at: null, fault, timeZone }),
    onSuccess: (at) => ({ at, fault: null, timeZone })
  })
}
