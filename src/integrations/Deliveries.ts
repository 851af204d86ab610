/** Deliveries as operators see them (contract §13). */
import { Clock, Context, Data, Effect, Layer, Option } from "effect"
import { SqlClient } from "effect/sql"
import type { DeliveryId, InstallationId, ProjectId } from "../api/Ids.ts"
import type { EventType } from "../api/integrations/Events.ts"
import { Operator } from "../platform/Audit.ts"
import { Notifier } from "../platform/outbox/Notifier.ts"
import { type ProjectUnknown, requireProject } from "../platform/ProjectUnknown.ts"
import type { State } from "./Deliveries/States.ts"
import { notRetriable, retryFor } from "./Webhooks/Retry.ts"

export { type State, states } from "./Deliveries/States.ts"

/** A delivery, with what its last attempt came to. */
export interface Delivery {
  readonly deliveryId: DeliveryId
  readonly installationId: InstallationId
  readonly eventType: EventType
  readonly status: State
  readonly attempts: number
  /** RFC 3339; null unless it is pending. */
  readonly nextAttemptAt: string | null
  readonly lastStatusCode: number | null
  readonly lastErrorCode: string | null
  readonly createdAt: string
}

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
export interface Shown extends Delivery {
  /** The delivery that it repeats, where a replay has made it. */
  readonly replayOf: DeliveryId | null
  readonly attemptLog: ReadonlyArray<Attempt>
}

export class Deliveries extends Context.Service<
  Deliveries,
  {
    /** Lists the deliveries of a project, optionally of one installation or in one state, newest first. */
    readonly list: (
      projectId: ProjectId,
      filter: { readonly installationId: Option.Option<string>; readonly status: Option.Option<State> }
    ) => Effect.Effect<ReadonlyArray<Delivery>, ProjectUnknown | InstallationUnknown>

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
        list: Effect.fn("Deliveries.list")(function* (projectId, { installationId, status }) {
          yield* requireProject(sql, projectId)
          if (Option.isSome(installationId)) yield* requireInstallation(sql, projectId, installationId.value)
          return yield* sql<Delivery>`
            SELECT ${sql.literal(columns)} FROM deliveries JOIN events
              ON events.project_id = deliveries.project_id AND events.id = deliveries.event_id
            WHERE deliveries.project_id = ${projectId}
              AND (${Option.getOrNull(installationId)}::text IS NULL
                OR deliveries.installation_id = ${Option.getOrNull(installationId)})
              AND (${Option.getOrNull(status)}::text IS NULL OR deliveries.status = ${Option.getOrNull(status)})
            ORDER BY deliveries.created_at DESC, deliveries.id DESC`.pipe(Effect.orDie)
        }),
        show: Effect.fn("Deliveries.show")(function* (projectId, id) {
          yield* requireProject(sql, projectId)
          const [delivery] = yield* sql<Shown>`
            SELECT ${sql.literal(columns)}, replay_of AS "replayOf", ${sql.literal(shownLog)} AS "attemptLog" FROM deliveries JOIN events
              ON events.project_id = deliveries.project_id AND events.id = deliveries.event_id
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

const instant = (column: string) => `to_char(${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

const columns = `
  deliveries.id AS "deliveryId", deliveries.installation_id AS "installationId", events.type AS "eventType",
  deliveries.status, deliveries.attempts,
  CASE WHEN deliveries.status = 'pending' THEN ${instant("deliveries.available_at")} END AS "nextAttemptAt",
  (attempt_log->-1->>'statusCode')::int AS "lastStatusCode",
  coalesce(dead_code, attempt_log->-1->>'errorCode') AS "lastErrorCode",
  ${instant("deliveries.created_at")} AS "createdAt"`

/** The attempt log without the endpoint of each attempt, which the console alone shows. */
const shownLog = `(
  SELECT coalesce(jsonb_agg(entry - 'endpointUrl' ORDER BY place), '[]')
  FROM jsonb_array_elements(attempt_log) WITH ORDINALITY AS log (entry, place)
)`

/** Counts, over all projects, the dead deliveries, and those whose lease ended a minute ago without a takeover. */
export const countStuck = Effect.fn("Deliveries.countStuck")(function* (sql: SqlClient.SqlClient) {
  const [row] = yield* sql<{ readonly dead: number; readonly abandoned: number }>`
    SELECT count(*) FILTER (WHERE status = 'dead')::int AS dead,
      count(*) FILTER (WHERE status = 'delivering' AND leased_until < now() - interval '1 minute')::int AS abandoned
    FROM deliveries WHERE status IN ('dead', 'delivering')`
  return row ?? { dead: 0, abandoned: 0 }
})
