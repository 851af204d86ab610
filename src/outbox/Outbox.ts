/**
 * The transactional outbox (contract §10). The statement of a change also appends the events of the change and the deliveries of
 * these events. So either all of them are committed or none.
 */
import { Clock, Context, Duration, Effect, Layer, Option, Queue, Schema, type Scope, Struct } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { InstallationId, ProjectId } from "../api/schema/Ids.ts"
import type { EventType } from "../api/integrations/Events.ts"
import { currentOrNewTraceparent } from "../telemetry/Telemetry.ts"
import { randomUUID } from "node:crypto"
import { DeliveryPace } from "../work/DeliveryPace.ts"
import { Supervisor } from "../work/Supervisor.ts"
import { PgClient } from "@effect/sql-pg"
import { sqlClients } from "../sql/Connections.ts"

export interface EventContext {
  readonly projectId: ProjectId
  readonly at: Date
  /** The position of the change in a trace (W3C Trace Context). */
  readonly traceparent: string
}

export const eventContext = Effect.fnUntraced(function* (projectId: ProjectId): Effect.fn.Return<EventContext> {
  return { projectId, at: new Date(yield* Clock.currentTimeMillis), traceparent: yield* currentOrNewTraceparent }
})

export const eventType = (sql: SqlClient.SqlClient, type: EventType): Statement.Fragment => sql.literal(`'${type}'`)

/** The installations for which a statement has appended deliveries. */
export type Appended = ReadonlyArray<InstallationId>

/**
 * Returns an SQL expression (`text[]`): the installations of a project for which the statement has appended deliveries by
 * `append`. `distinct` is empty for a statement that appends one event, which has one delivery for each installation.
 */
export const appendedInstallations = (
  sql: SqlClient.SqlClient,
  projectId: Statement.Fragment,
  distinct: Statement.Fragment = sql.literal("DISTINCT")
): Statement.Fragment =>
  sql`ARRAY(SELECT ${distinct} installation_id FROM delivery WHERE delivery.project_id = ${projectId})`

/**
 * Returns common table expressions that append events and deliveries. `happened` is a query of the events: project, `type`,
 * `data` (json), time and traceparent. An event gets a delivery for every enabled webhook of its project that subscribes to its
 * type. An event without a subscriber is not stored; one of a disabled webhook is, for a replay. A delivery is due at once. The due
 * time is from the database's clock, by which workers look for due deliveries. A webhook that is disabled concurrently may still
 * get a delivery, because its row is not locked.
 */
export const append = (sql: SqlClient.SqlClient, happened: Statement.Fragment): Statement.Fragment => sql`
  event AS (
    INSERT INTO events (project_id, id, type, data, occurred_at, traceparent)
    SELECT happened.project_id, new_id('evt', happened.at), happened.type, happened.data, happened.at,
           happened.traceparent
    FROM (${happened}) AS happened (project_id, type, data, at, traceparent)
    WHERE EXISTS (
      SELECT FROM webhooks
      WHERE webhooks.project_id = happened.project_id
        AND happened.type = ANY(webhooks.event_types)
    )
    RETURNING project_id, id, type, occurred_at
  ),
  delivery AS (
    INSERT INTO deliveries (project_id, id, installation_id, event_id, event_type, available_at, created_at)
    SELECT event.project_id, new_id('dlv', event.occurred_at), webhooks.installation_id, event.id, event.type,
           date_trunc('milliseconds', now()), event.occurred_at
    FROM event JOIN webhooks
      ON webhooks.project_id = event.project_id AND webhooks.enabled AND event.type = ANY(webhooks.event_types)
    RETURNING project_id, installation_id
  )`

/**
 * Returns the events of a kind of mutation (`Kind.events`), by their types. A query selects what `append` takes, with its parameter as the
 * `type`. A command has at most one event of each type.
 */
export const eventsOf = (
  sql: SqlClient.SqlClient,
  queries: Partial<Record<EventType, (type: Statement.Fragment) => Statement.Fragment>>
) => {
  const types = Struct.keys(queries)
  const happened = Object.entries(queries).map(([type, query]) => query(sql.literal(`'${type}'`)))
  return {
    types,
    appended: append(sql, sql.join(" UNION ALL ", false)(happened)),
    // This is not an EXISTS, because the plan of an EXISTS could read all webhooks.
    noSubscriber: sql.literal(`(
    SELECT bool_or(event_types && '{${types.join()}}') FROM webhooks WHERE webhooks.project_id = projects.project_id
  ) IS NOT TRUE`),
    installations: (distinct: Statement.Fragment) =>
      appendedInstallations(sql, sql`decided.project_id`, types.length === 1 ? distinct : undefined)
  }
}

export const channel = "deliveries"

const Notice = Schema.Struct({
  on: Schema.Literals(["appended", "changed"]),
  projectId: ProjectId,
  installationIds: Schema.Array(InstallationId),
  /** The process that sent the notice. Its worker has received the notice without a NOTIFY. */
  receivedBy: Schema.optionalKey(Schema.String)
})
export type Notice = typeof Notice.Type

const Payload = Schema.fromJsonString(Notice)
const encode = Schema.encodeSync(Payload)

export const noticeOf: (payload: string) => Option.Option<Notice> = Schema.decodeUnknownOption(Payload)

/** Maximum number of queued notices. The sweep finds the deliveries of a dropped notice. */
const maxNotices = 10_000

/**
 * Maximum number of bytes of the installations' ids in one payload. PostgreSQL accepts a payload of less than 8,000 bytes, and
 * the payload also contains the project's id.
 */
const installationBytes = 6_500

/** The notifier reports progress after this time without a notice. */
const idleAfter = Duration.seconds(5)
const stalledAfter = Duration.seconds(30)

/**
 * Notifies the delivery workers of all processes of new deliveries and changed webhooks.
 *
 * The worker of the same process receives a notice at once. Workers of other processes receive it by a NOTIFY, which is a
 * separate statement after the commit: a NOTIFY inside the transaction of a change would serialize all such commits. There is none
 * for new deliveries while this worker is the only one, because the commit of a NOTIFY is flushed to disk. A delivery does not
 * depend on its notice. If a process ends before it notifies, the sweep of the delivery worker finds the deliveries
 * later (see `src/README.md`).
 */
export class Notifier extends Context.Service<
  Notifier,
  {
    readonly appended: (projectId: ProjectId, installationIds: ReadonlyArray<InstallationId>) => Effect.Effect<void>
    /** Announces that the URL, the secrets or the state of an installation's webhook has changed. */
    readonly changed: (projectId: ProjectId, installationId: InstallationId) => Effect.Effect<void>
    /** Calls `receive` for each notice of this process, until the scope is closed. `receive` returns whether there is no other worker. */
    readonly subscribe: (receive: (notice: Notice) => boolean) => Effect.Effect<void, never, Scope.Scope>
    /** Whether this process sent the notice. If so, its subscribers have already received the notice. */
    readonly isOwn: (notice: Notice) => boolean
  }
>()("developer-api-service/outbox/Outbox/Notifier") {
  /** Provides the notifier for requests, which do not wait for the NOTIFY. Notices that wait in the queue are merged. */
  static readonly layer = Layer.effect(
    Notifier,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const notices = yield* Queue.dropping<Notice>(maxNotices)
      const receivers = new Set<(notice: Notice) => boolean>()
      const processId = randomUUID()
      const supervisor = yield* Supervisor
      const pace = yield* DeliveryPace
      const idle = Effect.suspend(() =>
        Queue.sizeUnsafe(notices) > 0 ? Effect.void : Effect.timeoutOption(Queue.peek(notices), idleAfter)
      )
      const send = Effect.flatMap(Queue.clear(notices), (gathered) =>
        Effect.forEach(mergeNotices(gathered), (notice) => notify(sql, { ...notice, receivedBy: processId }), {
          discard: true
        })
      )
      yield* supervisor.supervise("outbox notifier", { stalledAfter }, (progress) =>
        idle.pipe(Effect.andThen(send), Effect.andThen(progress), Effect.forever)
      )
      return {
        ...notifierBy((notice) =>
          Effect.sync(() => {
            if (notice.on === "appended") pace.appended(notice.projectId, notice.installationIds.length)
            const isOnly = Array.from(receivers, (receive) => receive(notice)).includes(true)
            if (!isOnly || notice.on === "changed") Queue.offerUnsafe(notices, notice)
          })
        ),
        subscribe: (receive) =>
          Effect.acquireRelease(
            Effect.sync(() => void receivers.add(receive)),
            () => Effect.sync(() => receivers.delete(receive))
          ),
        isOwn: ({ receivedBy }) => receivedBy === processId
      }
    })
  )

  /** Provides the notifier for commands, which wait for the NOTIFY, because their process ends afterwards. */
  static readonly layerInline = Layer.effect(
    Notifier,
    Effect.map(SqlClient.SqlClient, (sql) => ({
      ...notifierBy((notice) => Effect.forEach(mergeNotices([notice]), (part) => notify(sql, part), { discard: true })),
      subscribe: () => Effect.void,
      isOwn: () => false
    }))
  )
}

const notifierBy = (
  send: (notice: Notice) => Effect.Effect<void>
): Pick<Notifier["Service"], "appended" | "changed"> => ({
  appended: (projectId, installationIds) =>
    installationIds.length === 0 ? Effect.void : send({ on: "appended", projectId, installationIds }),
  changed: (projectId, installationId) => send({ on: "changed", projectId, installationIds: [installationId] })
})

/** Merges the notices of each kind and project, and splits a notice that is too large for a payload. */
const mergeNotices = (notices: ReadonlyArray<Notice>): ReadonlyArray<Notice> =>
  [...Map.groupBy(notices, ({ on, projectId }) => `${on} ${projectId}`).values()].flatMap((group) => {
    const parts: Array<Array<InstallationId>> = []
    let left = 0
    for (const id of new Set(group.flatMap(({ installationIds }) => installationIds))) {
      const bytes = Buffer.byteLength(JSON.stringify(id)) + 1
      if (bytes > left) {
        parts.push([])
        left = installationBytes
      }
      parts.at(-1)?.push(id)
      left -= bytes
    }
    return group.slice(0, 1).flatMap((notice) => parts.map((installationIds) => ({ ...notice, installationIds })))
  })

const notify = (sql: SqlClient.SqlClient, notice: Notice) =>
  sql`SELECT pg_notify(${channel}, ${encode(notice)})`.pipe(
    Effect.catchTag("SqlError", (error) => Effect.logDebug("A NOTIFY of deliveries failed", error))
  )

/**
 * Returns a function that runs a mutation, then notifies the delivery workers of the deliveries that the mutation has appended. A
 * repeated request appends none.
 */
export const notifyingAfter =
  (notifier: Notifier["Service"]) =>
  <A extends { readonly returned: ReadonlyArray<InstallationId> | null }, E>(
    projectId: ProjectId,
    mutation: Effect.Effect<A, E>
  ): Effect.Effect<A, E> =>
    Effect.tap(mutation, ({ returned }) => notifier.appended(projectId, returned ?? []))

const reconnectAfter = Duration.seconds(1)

/** Interval at which a listener that receives nothing reports progress. */
const progressEvery = Duration.seconds(10)
const listenerStalledAfter = Duration.minutes(1)

/**
 * Calls `receive` once for each notice: directly from this process, and by NOTIFY from others. When the connection for notices of
 * other processes breaks, it is opened again.
 */
export const listen = Effect.fnUntraced(function* (receive: (notice: Notice) => boolean) {
  const supervisor = yield* Supervisor
  const notifier = yield* Notifier
  yield* notifier.subscribe(receive)
  const session = Effect.fnUntraced(function* (progress: Effect.Effect<void>) {
    const client = Context.get(yield* Layer.build(Layer.fresh(sqlClients.listener)), PgClient.PgClient)
    const notifications = yield* client.listen(channel)
    return yield* Queue.take(notifications).pipe(
      Effect.timeoutOption(progressEvery),
      Effect.map((notification) => {
        const notice = Option.flatMap(notification, ({ payload }) => noticeOf(payload))
        if (Option.isSome(notice) && !notifier.isOwn(notice.value)) receive(notice.value)
      }),
      Effect.andThen(progress),
      Effect.forever
    )
  })
  return yield* supervisor.supervise("deliveries listener", { stalledAfter: listenerStalledAfter }, (progress) =>
    session(progress).pipe(
      Effect.scoped,
      Effect.catch((error) => Effect.logDebug("The connection of the deliveries listener broke", error)),
      Effect.andThen(Effect.sleep(reconnectAfter)),
      Effect.forever
    )
  )
})
