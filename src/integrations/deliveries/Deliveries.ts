/** Deliveries as operators see them (contract §13). */
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { Operator } from "../../platform/operators/Audit.ts"
import { isAwake } from "../../platform/Moves.ts"
import { lookupOne } from "../../platform/database/Lookups.ts"
import { Notifier } from "../../platform/outbox/Notifier.ts"
import { type ProjectUnknown, requireProject } from "../../platform/operators/ProjectUnknown.ts"
import { complete, type Found, type Range } from "../../platform/operators/Search.ts"
import { type Details, details } from "./DeliveryDetails.ts"
import { type Delivery, type Filter, find, isDead } from "./DeliveryList.ts"
import { CommandRefused, lacks } from "../CommandRefused.ts"
import * as Installations from "../Installations.ts"
import { notRetriable, retryFor } from "./Deliveries/Retry.ts"

export { type State, states } from "./States.ts"
export type { Delivery, Details }

export class Deliveries extends Context.Service<
  Deliveries,
  {
    /** Lists the deliveries of a project that match a filter, newest first. */
    readonly list: (
      projectId: ProjectId,
      filter: Filter,
      range: Range
    ) => Effect.Effect<Found<Delivery>, ProjectUnknown | CommandRefused>

    readonly show: (projectId: ProjectId, id: string) => Effect.Effect<Details, ProjectUnknown | CommandRefused>

    /** Returns a dead delivery to the queue, at the start of its retry schedule. */
    readonly retry: (projectId: ProjectId, id: string) => Effect.Effect<void, ProjectUnknown | CommandRefused, Operator>
  }
>()("developer-api/integrations/deliveries/Deliveries") {
  static readonly layer = Layer.effect(
    Deliveries,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const notifier = yield* Notifier

      return {
        list: Effect.fn("Deliveries.list")(function* (projectId, filter, range) {
          yield* requireProject(sql, projectId)
          if (filter.installationId !== null) yield* requireInstallation(sql, projectId, filter.installationId)
          const search = (range: Range) => Effect.orDie(find(sql, projectId, filter, range))
          return yield* complete(search, range, ({ id }) => id)
        }),
        show: Effect.fn("Deliveries.show")(function* (projectId, id) {
          yield* requireProject(sql, projectId)
          const delivery = yield* Effect.orDie(lookupOne(sql, details(sql), { projectId, id }))
          return delivery ?? (yield* lacks(projectId, `delivery "${id}"`))
        }),
        retry: Effect.fn("Deliveries.retry")(function* (projectId, id) {
          const { actor } = yield* Operator
          const at = new Date(yield* Clock.currentTimeMillis)
          const [verdict] = yield* Effect.orDie(retryFor(sql, actor, projectId, id, at))
          if (verdict === undefined) {
            yield* requireProject(sql, projectId)
            return yield* lacks(projectId, `delivery "${id}"`)
          }
          const { installationId, refusal } = verdict
          if (refusal !== null) {
            const message = `Delivery "${id}" can't be retried: ${notRetriable[refusal] ?? refusal}`
            return yield* new CommandRefused({ message })
          }
          yield* notifier.appended(projectId, [installationId])
        })
      }
    })
  )
}

const requireInstallation = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  installationId: string
): Effect.fn.Return<void, CommandRefused> {
  const exists = yield* Effect.orDie(Installations.exists(sql, projectId, installationId))
  if (!exists) return yield* lacks(projectId, `installation "${installationId}"`)
})

/**
 * Counts deliveries of all projects that this database serves. `dead`: dead deliveries, up to 10,000; `project` is the
 * project of one of them. `abandoned`: deliveries whose lease ended more than a minute ago, and which no worker has taken
 * over.
 */
export const countStuck = Effect.fn("Deliveries.countStuck")(function* (sql: SqlClient.SqlClient) {
  const [row] = yield* sql<{ readonly dead: number; readonly project: string | null; readonly abandoned: number }>`
    SELECT counted.*, (
        SELECT count(*)::int FROM deliveries
        WHERE finished_at IS NULL AND status = 'delivering' AND leased_until < now() - interval '1 minute'
          AND ${isAwake(sql, "project_id")}
      ) AS abandoned
    FROM (
      SELECT count(*)::int AS dead, min(project_id) AS project FROM (
        SELECT project_id FROM deliveries WHERE ${sql.literal(isDead)} AND status = 'dead' AND ${isAwake(sql, "project_id")} LIMIT 10000
      ) found
    ) counted`
  return row ?? { dead: 0, project: null, abandoned: 0 }
})
