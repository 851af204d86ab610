/** What is done about deliveries now and again: what no worker will is put right, old ones go, and the queue is measured. */
import { Clock, Duration, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { statement } from "../../platform/Database.ts"
import { every } from "../../platform/Every.ts"
import { Measured } from "../../platform/Measured.ts"
import { untraced } from "../../platform/Telemetry.ts"
import * as Metrics from "./Metrics.ts"
import { giveUp, prune, reclaim, retentionDays } from "./Repairs.ts"

const repairEvery = Duration.seconds(1)
const pruneEvery = Duration.minutes(1)
const pruneBatch = 1_000
const measureEvery = Duration.seconds(15)

export interface Parts {
  readonly sql: SqlClient.SqlClient
  /** For what takes its time. */
  readonly maintenance: SqlClient.SqlClient
  readonly lease: Duration.Duration
  readonly endpointConcurrency: number
  /** Has the deliverers look for what is due. */
  readonly ring: Effect.Effect<unknown>
}

/** Goes on for as long as the scope lives. */
export const upkeep = Effect.fnUntraced(function* ({ endpointConcurrency, lease, maintenance, ring, sql }: Parts) {
  const now = Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis))

  yield* quietly(
    repairEvery,
    "Lost deliveries were not returned",
    Effect.gen(function* () {
      const at = yield* now
      const lost = yield* statement(reclaim(sql, at, Duration.toMillis(lease)))
      if (lost.length > 0) yield* ring
      yield* statement(giveUp(sql, at))
    })
  )

  yield* quietly(
    pruneEvery,
    "Old deliveries were not removed",
    Effect.gen(function* () {
      const horizon = new Date((yield* Clock.currentTimeMillis) - Duration.toMillis(Duration.days(retentionDays)))
      return (yield* statement(prune(maintenance, horizon, pruneBatch)))[0]?.more === true
    }).pipe(Effect.repeat({ while: (more) => more }))
  )

  if (yield* Measured) {
    yield* quietly(
      measureEvery,
      "The queue of deliveries was not measured",
      Effect.flatMap(now, (at) => Metrics.gauge(sql, at, endpointConcurrency))
    )
  }
})

/** Most of the time there is nothing to be done. */
const quietly = <A, E>(pause: Duration.Duration, complaint: string, effect: Effect.Effect<A, E>) =>
  every(pause, complaint, untraced(effect))
