/** The commands with which operators list, pause, resume, cancel and retry campaigns (contract §13). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { commanded } from "../api/campaigns/States.ts"
import { CampaignId, type ProjectId } from "../api/schema/Ids.ts"
import { Operator, recordAction } from "../operators/Audit.ts"
import { command, type Mutation } from "../commands/Idempotency.ts"
import { mutate } from "../commands/Mutate.ts"
import { Mutations } from "../commands/Mutations.ts"
import { lookupOne } from "../sql/Lookups.ts"
import { eventContext } from "../outbox/Outbox.ts"
import { lacks, Refused, requireProject } from "../operators/Refusals.ts"
import { pageOf, type Range } from "../operators/Search.ts"
import { details, list, type Listed } from "./CampaignList.ts"
import { change, changeOf } from "./Campaigns/Changes.ts"
import { retryFailed } from "./Campaigns/RetryFailed.ts"

export const operations = ["pause", "resume", "cancel", "retry_failed"] as const
export type Operation = (typeof operations)[number]

export { retriedMax } from "./Campaigns/RetryFailed.ts"

export const operationLabels = {
  pause: "Pause the campaign",
  resume: "Resume the campaign",
  cancel: "Cancel the campaign",
  retry_failed: "Retry the failed recipients"
} as const satisfies Record<Operation, string>

/** Returns the commands that would change a campaign. */
export const operationsOn = ({ progress, status }: Listed): ReadonlyArray<Operation> =>
  operations.filter((operation) => {
    const to = commanded.moves[operation][status]
    return to !== undefined && (operation === "retry_failed" ? progress.failed > 0 : to !== status)
  })

/** Lists campaigns, newest first. */
export const listCampaigns = Effect.fn("listCampaigns")(function* (
  projectId: ProjectId,
  status: Listed["status"] | null,
  { after, limit }: Range
) {
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  const rows = yield* list(
    sql,
    projectId,
    sql`${sql.literal(status === null ? "" : `AND campaigns.status = '${status}'`)} AND created_at > '-infinity'
      ${after === null ? sql.literal("") : sql`AND (created_at, id) < ((SELECT created_at FROM campaigns WHERE project_id = ${projectId} AND id = ${after}), ${after})`}
      ORDER BY created_at DESC, id DESC LIMIT ${limit + 1}::int`
  )
  return pageOf(rows, limit, ({ id }) => id)
})

export const showCampaign = Effect.fn("showCampaign")(function* (projectId: ProjectId, id: string) {
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  const found = yield* lookupOne(sql, details(sql), { projectId, id })
  return found ?? (yield* lacks(projectId, "campaign", id))
})

/**
 * Carries out a command on a campaign. If the campaign changes, the same statement writes the audit entry. `once` is the key of the
 * command. Returns the number of recipients that are retried; null if the command retries none, or is repeated.
 */
export const commandCampaign = Effect.fn("commandCampaign")(function* (
  projectId: ProjectId,
  id: string,
  operation: Operation,
  once: string
) {
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  yield* requireProject(sql, projectId)
  const cause = yield* eventContext(projectId)
  const changed: Mutation<object> =
    operation === "retry_failed"
      ? retryFailed(sql, projectId, CampaignId.make(id), cause)
      : change(sql, projectId, CampaignId.make(id), changeOf({ operation }), cause)
  const effect = sql`${changed.effect},
    commanded AS (SELECT project_id FROM claim WHERE changed),
    ${recordAction(sql, { actor, action: `campaign.${operation}`, target: id }, "commanded")}`
  const request = command(projectId, {
    endpoint: { identifier: `operator.${operation}` },
    headers: { "idempotency-key": `opr_${once}` },
    params: { id }
  })
  const { returned } = yield* mutate<object, number>(yield* Mutations, request, { ...changed, effect }).pipe(
    Effect.mapError((refused) => new Refused({ message: messageOf(refused) }))
  )
  return returned
})

/**
 * Pauses every campaign of any project that sends or is to send by itself. A restored database does not know what was sent after
 * its backup, and would send it again. Returns the campaigns.
 */
export const pauseAll = Effect.fn("pauseAllCampaigns")(function* (newOnce: Effect.Effect<string>) {
  const sql = yield* SqlClient.SqlClient
  const underWay = yield* sql<{ readonly projectId: ProjectId; readonly id: string }>`
    SELECT project_id AS "projectId", id FROM campaigns WHERE status IN ('scheduled', 'running') ORDER BY project_id, id`
  for (const { id, projectId } of underWay) yield* commandCampaign(projectId, id, "pause", yield* newOnce)
  return underWay
})

const messageOf = (refused: object) => ("detail" in refused ? String(refused.detail) : "The campaign was not changed.")
