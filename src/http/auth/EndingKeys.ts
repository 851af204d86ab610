/**
 * API keys that end within `warnBefore`: the state that operators see, a line a day in the log, and a metric. The line, the metric and
 * `doctor` leave out keys that are not in use.
 */
import { Clock, Duration, Effect, Layer, Metric } from "effect"
import { SqlClient } from "effect/sql"
import { plural } from "../../platform/Text.ts"
import { monotonicMillis } from "../../platform/MonotonicTime.ts"
import { isAwake } from "../../platform/MoveState.ts"
import { statement } from "../../sql/Database.ts"
import { gauge, MetricsEnabled, untraced } from "../../telemetry/Telemetry.ts"
import { forkPeriodic } from "../../work/Supervisor.ts"
import { Worker } from "../../work/Worker.ts"

const warnBefore = Duration.days(14)
const measureEvery = Duration.minutes(1)

/** Maximum number of keys that are counted, and of keys that are named in the log. */
export const maxCount = 1_000
const maxNamed = 20

/** An SQL expression: the state of a key. An `ending` key is still accepted. */
export const state = `CASE
  WHEN revoked_at IS NOT NULL THEN 'revoked'
  WHEN expires_at <= now() THEN 'expired'
  WHEN expires_at <= now() + interval '${Duration.toSeconds(warnBefore)} s' THEN 'ending'
  ELSE 'active'
END`

interface EndingKey {
  readonly projectId: string
  readonly keyId: string
  readonly name: string
  readonly expiresAt: Date
  readonly days: number
}

/**
 * Lists the keys that end soon, the next to end first, up to `maxCount`. A key counts if it was used within 30 days. A key that was
 * issued for a shorter time, or whose end a rotation has brought forward, ends on purpose and does not count.
 */
export const listEnding = (sql: SqlClient.SqlClient) => {
  const before = sql`${Duration.toSeconds(warnBefore)}::int * interval '1 second'`
  return sql<EndingKey>`
    SELECT project_id AS "projectId", key_id AS "keyId", name, expires_at AS "expiresAt",
      ceil(extract(epoch FROM expires_at - now()) / 86400)::int AS days
    FROM api_keys
    WHERE revoked_at IS NULL AND expires_at > now() AND expires_at < now() + ${before}
      AND last_used_at > now() - interval '30 days'
      AND lifetime > ${before} AND expires_at - created_at > lifetime - interval '1 day'
      AND ${isAwake(sql, "project_id")}
    ORDER BY expires_at LIMIT ${maxCount}::int`
}

const count = gauge("api_keys_ending", `Keys in use that end within 14 days; at most ${maxCount}, where counting stops`)

const log = Effect.fnUntraced(function* (ending: ReadonlyArray<EndingKey>) {
  for (const { days, expiresAt, keyId, name, projectId } of ending.slice(0, maxNamed)) {
    yield* Effect.annotateLogs(Effect.logWarning(`A key in use ends within ${plural(days, "day", "days")}`), {
      project_id: projectId,
      key_id: keyId,
      name,
      expires_at: expiresAt.toISOString()
    })
  }
  const more = ending.length - maxNamed
  if (more > 0) yield* Effect.logWarning(`${plural(more, "more key", "more keys")} in use end within 14 days`)
})

/** Each worker measures. The first worker writes the lines, once when it starts and then once a day. */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const worker = yield* Worker
    const measured = yield* MetricsEnabled
    const clock = yield* Clock.Clock
    let logAt = -Infinity
    const look = Effect.gen(function* () {
      const ending = yield* statement(listEnding(sql))
      if (measured) yield* Metric.update(count, ending.length)
      const now = monotonicMillis(clock)
      if (!worker.isFirst() || now < logAt) return
      logAt = now + Duration.toMillis(Duration.days(1))
      yield* log(ending)
    })
    yield* forkPeriodic("keys that end soon", { interval: measureEvery }, untraced(look))
  })
)
