/**
 * Wakes whoever delivers, on every replica, once there is something to deliver. It is told after the commit, by a
 * statement of its own: a NOTIFY inside a transaction would make all such commits wait for each other. If the process
 * dies in between, the deliverers find the delivery when they next look by themselves.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Option, Queue, Schema } from "effect"
import { InstallationId, ProjectId } from "../../api/Ids.ts"

export const channel = "deliveries"

const Endpoint = Schema.Tuple([ProjectId, InstallationId])
export type Endpoint = typeof Endpoint.Type

const Payload = Schema.fromJsonString(Endpoint)
const encode = Schema.encodeSync(Payload)

/** The endpoint that a NOTIFY is about, if it is about one. */
export const endpointOf: (payload: string) => Option.Option<Endpoint> = Schema.decodeUnknownOption(Payload)

export class Wake extends Context.Service<
  Wake,
  {
    /** Says that there are new deliveries. */
    readonly deliverers: Effect.Effect<void>
    /** Says that the webhook of an installation is another than before: where it leads, or what it is signed with. */
    readonly changed: (endpoint: Endpoint) => Effect.Effect<void>
  }
>()("developer-api/platform/outbox/Wake") {
  /** For requests, which don't wait for it: what many of them say while a NOTIFY is under way is said once. */
  static readonly layer = Layer.effect(
    Wake,
    Effect.gen(function* () {
      const sql = yield* PgClient.PgClient
      const told = yield* Queue.unbounded<string>()
      yield* Queue.takeAll(told).pipe(
        Effect.flatMap((payloads) =>
          Effect.forEach(new Set(payloads), (payload) => notify(sql, payload), { discard: true })
        ),
        Effect.forever,
        Effect.forkScoped
      )
      return wakeBy((payload) => Effect.asVoid(Queue.offer(told, payload)))
    })
  )

  /** For commands, whose process ends right after. */
  static readonly layerInline = Layer.effect(
    Wake,
    Effect.map(PgClient.PgClient, (sql) => wakeBy((payload) => notify(sql, payload)))
  )
}

const wakeBy = (tell: (payload: string) => Effect.Effect<void>) => ({
  deliverers: tell(""),
  changed: (endpoint: Endpoint) => tell(encode(endpoint))
})

const notify = (sql: PgClient.PgClient, payload: string) =>
  sql
    .notify(channel, payload)
    .pipe(Effect.catchTag("SqlError", (error) => Effect.logDebug("The deliverers were not woken", error)))
