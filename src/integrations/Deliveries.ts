/** Deliveries as operators see them (contract §13). */
import { Clock, Context, Data, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/Ids.ts"
import { Operator } from "../platform/Audit.ts"
import { Notifier } from "../platform/outbox/Notifier.ts"
import { type ProjectUnknown, requireProject } from "../platform/ProjectUnknown.ts"
import { complete, type Found, type Range } from "../platform/Search.ts"
import { columnsOf, isDead, type Delivery, type Filter, find, type Listed } from "./DeliveryList.ts"
import { notRetriable, retryFor } from "./Webhooks/Retry.ts"

export { type State, states } from "./Deliveries/States.ts"
export type { Delivery }

export interface Attempt {
  readonly number: number
  readonly startedAt: string
  readonly finishedAt: string
  readonly statusCode: number | null
  readonly errorCode: string | null
  readonly durationMs: number | null
}

export class DeliveryUnknown extends Data.TaggedError("DeliveryUnknown")<{
  readonly projectId: ProjectId
  readonly deliveryId: string
}> {
  override get message() {
    return `Project "${this.projectId}" has no delivery "${this.deliveryId}"`
  }
}

export class InstallationUnknown extends Data.TaggedError("InstallationUnknown")<{
  readonly projectId: ProjectId
  readonly installationId: string
}> {
  override get message() {
    return `Project "${this.projectId}" has no installation "${this.installationId}"`
  }
}

export class DeliveryNotRetriable extends Data.TaggedError("DeliveryNotRetriable")<{
  readonly deliveryId: string
  readonly reason: string
}> {
  override get message() {
    return `Delivery "${this.deliveryId}" can't be retried: ${this.reason}`
  }
}

/** A delivery with the log of its attempts, the oldest first. */
export interface Shown extends Listed {
  readonly attemptLog: ReadonlyArray<Attempt>
}

export class Deliveries extends Context.Service<
  Deliveries,
  {
    /** Lists the deliveries of a project that match a filter, newest first. */
    readonly list: (
      projectId: ProjectId,
      filter: Filter,
      range: Range
    ) => Effect.Effect<Found<Delivery>, ProjectUnknown | InstallationUnknown>

    readonly show: (projectId: ProjectId, id: string) => Effect.Effect<Shown, ProjectUnknown | DeliveryUnknown>

    /** Returns a dead delivery to the queue, its retry schedule anew. */
    readonly retry: (
      projectId: ProjectId,
      id: string
    ) => Effect.Effect<void, ProjectUnknown | DeliveryUnknown | DeliveryNotRetriable, Operator>
  }
>()("developer-api/integrations/Deliveries") {
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
          const { items, next } = yield* complete(search, range, ({ deliveryId }) => deliveryId)
          return { items: items.map(withoutReplay), next }
        }),
        show: Effect.fn("Deliveries.show")(function* (projectId, id) {
          yield* requireProject(sql, projectId)
          const [delivery] = yield* sql<Shown>`
            SELECT ${sql.literal(shown)}, ${sql.literal(shownLog)} AS "attemptLog" FROM deliveries
            WHERE deliveries.project_id = ${projectId} AND deliveries.id = ${id}`.pipe(Effect.orDie)
          return delivery ?? (yield* new DeliveryUnknown({ projectId, deliveryId: id }))
        }),
        retry: Effect.fn("Deliveries.retry")(function* (projectId, id) {
          const { actor } = yield* Operator
          yield* requireProject(sql, projectId)
          const at = new Date(yield* Clock.currentTimeMillis)
          const [verdict] = yield* Effect.orDie(retryFor(sql, actor, projectId, id, at))
          if (verdict === undefined) return yield* new DeliveryUnknown({ projectId, deliveryId: id })
          const { installationId, refusal } = verdict
          if (refusal !== null) {
            return yield* new DeliveryNotRetriable({ deliveryId: id, reason: notRetriable[refusal] ?? refusal })
          }
          yield* notifier.appended(projectId, [installationId])
        })
      }
    })
  )
}

const withoutReplay = (listed: Listed): Delivery => {
  const { replayOf: _, ...delivery } = listed
  return delivery
}

const requireInstallation = Effect.fnUntraced(function* (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  installationId: string
): Effect.fn.Return<void, InstallationUnknown> {
  const rows = yield* Effect.orDie(
    sql`SELECT FROM installations WHERE project_id = ${projectId} AND id = ${installationId}`
  )
  if (rows.length === 0) return yield* new InstallationUnknown({ projectId, installationId })
})

const shown = columnsOf(
  "deliveries",
  "(SELECT type FROM events WHERE events.project_id = deliveries.project_id AND events.id = event_id)"
)

/** The attempt log without the endpoints and the answers of its attempts. */
const shownLog = `(
  SELECT coalesce(jsonb_agg(entry - 'endpointUrl' - 'responseBody' ORDER BY place), '[]')
  FROM jsonb_array_elements(attempt_log) WITH ORDINALITY AS log (entry, place)
)`

/** Counts, over all projects, the dead deliveries (to 10,000), and those whose lease ended a minute ago without a takeover. */
export const countStuck = Effect.fn("Deliveries.countStuck")(function* (sql: SqlClient.SqlClient) {
  const [row] = yield* sql<{ readonly dead: number; readonly project: string | null; readonly abandoned: number }>`
    SELECT counted.*, (
        SELECT count(*)::int FROM deliveries
        WHERE finished_at IS NULL AND status = 'delivering' AND leased_until < now() - interval '1 minute'
      ) AS abandoned
    FROM (
      SELECT count(*)::int AS dead, min(project_id) AS project FROM (
        SELECT project_id FROM deliveries WHERE ${sql.literal(isDead)} AND status = 'dead' LIMIT 10000
      ) found
    ) counted`
  return row ?? { dead: 0, project: null, abandoned: 0 }
})
