/** The fiber that makes the deliveries of replays. Each replay is locked by one worker at a time. */
import { Context, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { Supervisor } from "../platform/background/Supervisor.ts"
import { deadLetteringLayer, statement } from "../platform/Database.ts"
import { Notifier } from "../platform/outbox/Notifier.ts"
import { Settings } from "../platform/Settings.ts"
import { untraced } from "../platform/Telemetry.ts"
import { empty, release, type Replay } from "./Replays/Release.ts"
import { type State, unfinished } from "./Replays/States.ts"

/** Pauses: while deliveries are made, while there is no room for any, and while no replay is unfinished. */
const interval = Duration.millis(100)
const whenFull = Duration.millis(250)
const whenIdle = Duration.seconds(1)
/** A statement may take 4 s and be tried again. */
const stalledAfter = Duration.minutes(1)

/** Maximum number of replays in one run. */
const perRun = 100

/** In the text of the statement, as in the condition of the index `replays_under_way`. */
const states = unfinished.map((state) => `'${state}'`).join(", ")

const running = (sql: SqlClient.SqlClient) => sql<Replay & { readonly state: State }>`
  SELECT project_id AS "projectId", id, installation_id AS "installationId", until, state FROM replays
  WHERE state IN (${sql.literal(states)}) ORDER BY paced_at LIMIT ${perRun}::int`

export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = Context.get(yield* Layer.build(deadLetteringLayer), SqlClient.SqlClient)
    const supervisor = yield* Supervisor
    const notifier = yield* Notifier
    const { webhooks } = yield* Settings
    const terms = { concurrency: webhooks.endpointConcurrency, interval: Duration.toMillis(interval) }

    /** Makes the next deliveries of a replay, or ends a cancelled one. Returns how many were made. */
    const step = Effect.fnUntraced(function* (replay: Replay & { readonly state: State }) {
      const rows = yield* statement(replay.state === "running" ? release(sql, replay, terms) : empty(sql, replay))
      const made = rows[0]?.made ?? 0
      if (made > 0) yield* notifier.appended(replay.projectId, [replay.installationId])
      return made
    })

    /** Returns the pause until the next run. */
    const run = Effect.gen(function* () {
      const replays = yield* statement(running(sql))
      if (replays.length === 0) return whenIdle
      const made = yield* Effect.forEach(replays, step)
      return made.some((count) => count > 0) ? interval : whenFull
    })

    yield* supervisor.supervise("replays", { stalledAfter }, (progress) =>
      untraced(run).pipe(
        Effect.catch((error) => Effect.as(Effect.logWarning("A run of the replays failed", error), whenIdle)),
        Effect.tap(progress),
        Effect.flatMap(Effect.sleep),
        Effect.forever
      )
    )
  })
)
