/**
 * Receives the notices of new deliveries and changed webhooks (`Notifier`): directly from this process, and by NOTIFY from
 * others.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Duration, Effect, Layer, Option, Queue } from "effect"
import { Supervisor } from "../work/Supervisor.ts"
import { clients } from "../sql/Database.ts"
import { channel, type Notice, noticeOf, Notifier } from "./Notifier.ts"

const reconnectAfter = Duration.seconds(1)

/** Interval at which a listener that receives nothing reports progress. */
const progressEvery = Duration.seconds(10)
const stalledAfter = Duration.minutes(1)

/** Calls `receive` once for each notice. When the connection for notices of other processes breaks, it is opened again. */
export const listen = Effect.fnUntraced(function* (receive: (notice: Notice) => void) {
  const supervisor = yield* Supervisor
  const notifier = yield* Notifier
  yield* notifier.subscribe(receive)
  const session = Effect.fnUntraced(function* (progress: Effect.Effect<void>) {
    const client = Context.get(yield* Layer.build(Layer.fresh(clients.listener)), PgClient.PgClient)
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
  return yield* supervisor.supervise("deliveries listener", { stalledAfter }, (progress) =>
    session(progress).pipe(
      Effect.scoped,
      Effect.catch((error) => Effect.logDebug("The connection of the deliveries listener broke", error)),
      Effect.andThen(Effect.sleep(reconnectAfter)),
      Effect.forever
    )
  )
})
