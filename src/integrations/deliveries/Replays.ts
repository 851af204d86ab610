/**
 * Replays (contract §10): stored events of a period are sent to a webhook again. A replay is a row of `replays`. The `Replayer`
 * makes its deliveries. Each has the `webhook-id` of the delivery that it repeats.
 */
import { Clock, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../../api/schema/Ids.ts"
import type { EventType } from "../../api/integrations/Events.ts"
import type { ReplayFilter } from "../../api/integrations/Replays.ts"
import { Operator } from "../../operators/Audit.ts"
import { lacks, ProjectUnknown, Refused, requireProject } from "../../operators/Refusals.ts"
import { listing, showing } from "../../operators/Search.ts"
import { details, list } from "./Replays/List.ts"
import { cancel, start, webhook } from "./Replays/Commands.ts"

interface Request {
  readonly projectId: ProjectId
  readonly installationId: string
  readonly since: Date
  readonly until: Date
  readonly filter: ReplayFilter
  /** Empty for all types to which the webhook is subscribed. Events of other types are never sent again. */
  readonly eventTypes: ReadonlyArray<EventType>
  /** The id of the replay. A replay with this id is not started a second time. */
  readonly replayId: string
}

/** Starts a replay of the events of a period, which ends now at the latest. */
export const startReplay = Effect.fn("startReplay")(function* ({ eventTypes, replayId, until, ...request }: Request) {
  const { installationId, projectId, since } = request
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  const end = new Date(Math.min(until.getTime(), yield* Clock.currentTimeMillis))
  yield* requireProject(sql, projectId)
  if (since >= end) return yield* refused("The range is empty: `since` must be before `until`, and not in the future")
  const [to] = yield* webhook(sql, projectId, installationId)
  if (to === undefined) return yield* lacks(projectId, "webhook for installation", installationId)
  if (!to.enabled) return yield* refused(`The webhook of installation "${installationId}" is disabled: enable it first`)
  const types = to.eventTypes.filter((type) => eventTypes.length === 0 || eventTypes.includes(type))
  const started = yield* start(sql, { ...request, until: end, eventTypes: types, id: replayId, actor })
  // The project may have been moved or deleted meanwhile.
  if (started.length === 0) return yield* new ProjectUnknown({ projectId })
})

export const listReplays = listing("listReplays", list, ({ replayId }) => replayId)

export const showReplay = showing("showReplay", "replay", details)

/** Cancels a replay: it makes no more deliveries. Those that it has made are sent. A second cancellation changes nothing. */
export const cancelReplay = Effect.fn("cancelReplay")(function* (projectId: ProjectId, replayId: string) {
  const sql = yield* SqlClient.SqlClient
  const { actor } = yield* Operator
  const [found] = yield* cancel(sql, actor, projectId, replayId)
  if (found === undefined) {
    yield* requireProject(sql, projectId)
    return yield* lacks(projectId, "replay", replayId)
  }
  if (found.state === "completed")
    return yield* refused(`Replay "${replayId}" is completed: there is nothing left to cancel`)
  return { replayId, state: "cancelled", made: found.made }
})

const refused = (message: string) => new Refused({ message })
