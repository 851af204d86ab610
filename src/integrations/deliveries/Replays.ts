/**
 * Replays (contract §13): stored events of a period are delivered to a webhook again. A replay is a row. The `Replayer` makes
 * its deliveries, each with the `webhook-id` of the delivery that it repeats.
 */
import { Clock, Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { InstallationId, type ProjectId } from "../../api/schema/Ids.ts"
import type { EventType } from "../../api/integrations/Events.ts"
import { Operator } from "../../platform/operators/Audit.ts"
import { firstIdAt, newId } from "../../platform/NewId.ts"
import { ProjectUnknown, requireProject } from "../../platform/operators/ProjectUnknown.ts"
import { type Found, pageOf, type Range } from "../../platform/operators/Search.ts"
import { cancel, type Listed, list, start, webhook } from "./Replays/Repo.ts"
import { count, type Selection } from "./Replays/Selection.ts"
import type { State } from "./Replays/States.ts"
import { CommandRefused, lacks, webhookUnknown } from "../CommandRefused.ts"

export { filterNames } from "./Replays/Selection.ts"

export const ReplayId = Schema.String.check(Schema.isPattern(/^rpl_[0-9a-f]{32}$/))
export const newReplayId = newId("rpl")

/** Deliveries that a replay makes per second: the default and the maximum. */
export const usualPace = 50
export const highestPace = 1_000

export interface Request extends Omit<Selection, "installationId" | "eventTypes"> {
  readonly installationId: string
  /** If empty, all types to which the webhook is subscribed. Other types are never repeated. */
  readonly eventTypes: ReadonlyArray<EventType>
  readonly pace: number
  /** Whether to count the deliveries without starting a replay. */
  readonly dryRun: boolean
  /** The id of the replay, from `newReplayId`; by default a new one. A replay with this id is not started a second time. */
  readonly replayId?: string | undefined
}

export interface Started {
  /** Null for a dry run. */
  readonly replayId: string | null
  readonly matched: number
  /** Number of deliveries that will be made; 0 for a dry run. */
  readonly queued: number
}

const refused = (message: string) => new CommandRefused({ message })

export class Replays extends Context.Service<
  Replays,
  {
    /** Starts a replay of the deliveries of a period, which ends now at the latest. */
    readonly start: (request: Request) => Effect.Effect<Started, ProjectUnknown | CommandRefused, Operator>

    /** Lists the replays of a project, newest first. */
    readonly list: (projectId: ProjectId, range: Range) => Effect.Effect<Found<Listed>, ProjectUnknown>

    /** Cancels a replay: its deliveries that are not sent yet will not be sent. A second cancellation changes nothing. */
    readonly cancel: (
      projectId: ProjectId,
      replayId: string
    ) => Effect.Effect<
      { readonly replayId: string; readonly state: State; readonly matched: number; readonly queued: number },
      ProjectUnknown | CommandRefused,
      Operator
    >
  }
>()("developer-api/integrations/deliveries/Replays") {
  static readonly layer = Layer.effect(
    Replays,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient

      /** Counts the selected deliveries in portions, so that no statement takes long even if the range is long. */
      const countAll = Effect.fnUntraced(function* (selection: Selection) {
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
      }, Effect.orDie)

      return {
        start: Effect.fn("Replays.start")(function* ({ dryRun, eventTypes, pace, replayId, ...request }) {
          const { actor } = yield* Operator
          const now = yield* Clock.currentTimeMillis
          yield* requireProject(sql, request.projectId)
          const until = new Date(Math.min(request.until.getTime(), now))
          if (request.since >= until) {
            return yield* refused("The range is empty: `since` must be before `until`, and not in the future")
          }
          const [to] = yield* Effect.orDie(webhook(sql, request.projectId, request.installationId))
          if (to === undefined) return yield* webhookUnknown(request.projectId, request.installationId)
          if (!to.enabled) {
            return yield* refused(
              `The webhook of installation "${request.installationId}" is disabled: enable it first`
            )
          }
          const selection: Selection = {
            ...request,
            installationId: InstallationId.make(request.installationId),
            until,
            eventTypes: to.eventTypes.filter((type) => eventTypes.length === 0 || eventTypes.includes(type))
          }
          const matched = yield* countAll(selection)
          if (dryRun) return { replayId: null, matched, queued: 0 }
          const id = replayId ?? (yield* newReplayId)
          const started = yield* Effect.orDie(start(sql, { ...selection, id, pace, matched, actor }))
          // The project may have been moved or deleted during the count.
          if (started.length === 0) return yield* new ProjectUnknown(request)
          return { replayId: id, matched, queued: matched }
        }),
        list: Effect.fn("Replays.list")(function* (projectId, range) {
          yield* requireProject(sql, projectId)
          const rows = yield* Effect.orDie(list(sql, projectId, range))
          return pageOf(rows, range.limit, ({ replayId }) => replayId)
        }),
        cancel: Effect.fn("Replays.cancel")(function* (projectId, replayId) {
          const { actor } = yield* Operator
          const [found] = yield* Effect.orDie(cancel(sql, actor, projectId, replayId))
          if (found === undefined) {
            yield* requireProject(sql, projectId)
            return yield* lacks(projectId, `replay "${replayId}"`)
          }
          if (found.state !== "cancelling") {
            return yield* refused(`Replay "${replayId}" is ${found.state}: there is nothing left to cancel`)
          }
          return { replayId, ...found }
        })
      }
    })
  )
}
