/**
 * Replays (contract §13): stored events of a period are delivered to a webhook again. A replay is a row of `replays`. The
 * `Replayer` creates its deliveries. Each has the `webhook-id` of the delivery that it repeats.
 */
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { InstallationId, type ProjectId } from "../../api/schema/Ids.ts"
import type { EventType } from "../../api/integrations/Events.ts"
import { Operator } from "../../platform/operators/Audit.ts"
import { firstIdAt } from "../../platform/NewId.ts"
import { ProjectUnknown, requireProject } from "../../platform/operators/ProjectUnknown.ts"
import { lacks, Refused } from "../../platform/operators/Refused.ts"
import { pageOf, type Range } from "../../platform/operators/Search.ts"
import { cancel, list, start, webhook } from "./Replays/Repo.ts"
import { count, type Selection } from "./Replays/Selection.ts"

export { filterNames } from "./Replays/Selection.ts"

/** Deliveries that a replay makes per second: the default and the maximum. */
export const usualPace = 50
export const highestPace = 1_000

export interface Request extends Omit<Selection, "installationId" | "eventTypes"> {
  readonly installationId: string
  /** Empty for all types to which the webhook is subscribed. Events of other types are never sent again. */
  readonly eventTypes: ReadonlyArray<EventType>
  readonly pace: number
  readonly dryRun: boolean
  /** The id of the replay. A replay with this id is not started a second time. */
  readonly replayId: string
}

/**
 * Starts a replay of the deliveries of a period, which ends now at the latest. Returns how many deliveries match (`matched`) and
 * how many will be made at most (`queued`). For a dry run, `queued` is 0 and the id is null.
 */
export const startReplay = Effect.fn("startReplay")(function* ({
  dryRun,
  eventTypes,
  pace,
  replayId,
  ...request
}: Request) {
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  const now = yield* Clock.currentTimeMillis
  yield* requireProject(sql, request.projectId)
  const until = new Date(Math.min(request.until.getTime(), now))
  if (request.since >= until) {
    return yield* refused("The range is empty: `since` must be before `until`, and not in the future")
  }
  const [to] = yield* webhook(sql, request.projectId, request.installationId)
  if (to === undefined) return yield* lacks(request.projectId, "webhook for installation", request.installationId)
  if (!to.enabled) {
    return yield* refused(`The webhook of installation "${request.installationId}" is disabled: enable it first`)
  }
  const selection: Selection = {
    ...request,
    installationId: InstallationId.make(request.installationId),
    until,
    eventTypes: to.eventTypes.filter((type) => eventTypes.length === 0 || eventTypes.includes(type))
  }
  const matched = yield* countAll(sql, selection)
  if (dryRun) return { replayId: null, matched, queued: 0 }
  const started = yield* start(sql, { ...selection, id: replayId, pace, matched, actor })
  // The project may have been moved or deleted during the count.
  if (started.length === 0) return yield* new ProjectUnknown(request)
  return { replayId, matched, queued: matched }
})

/** Counts the selected deliveries in portions, so that no statement takes long. */
const countAll = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, selection: Selection) {
  let matched = 0
  let position: string | null = firstIdAt("dlv", selection.since.getTime())
  while (position !== null) {
    const rows: ReadonlyArray<{ readonly last: string | null; readonly matched: number }> = yield* count(
      sql,
      selection,
      position
    )
    matched += rows[0]?.matched ?? 0
    position = rows[0]?.last ?? null
  }
  return matched
})

export const listReplays = Effect.fn("listReplays")(function* (projectId: ProjectId, range: Range) {
  const sql = yield* SqlClient.SqlClient
  yield* requireProject(sql, projectId)
  return pageOf(yield* list(sql, projectId, range), range.limit, ({ replayId }) => replayId)
})

/** Cancels a replay. Its deliveries that are not sent yet will not be sent. A second cancellation changes nothing. */
export const cancelReplay = Effect.fn("cancelReplay")(function* (projectId: ProjectId, replayId: string) {
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  const [found] = yield* cancel(sql, actor, projectId, replayId)
  if (found === undefined) {
    yield* requireProject(sql, projectId)
    return yield* lacks(projectId, "replay", replayId)
  }
  if (found.state !== "cancelling") {
    return yield* refused(`Replay "${replayId}" is ${found.state}: there is nothing left to cancel`)
  }
  return { replayId, ...found }
})

const refused = (message: string) => new Refused({ message })
