/** API keys that end soon: which count, the lines of the log, the metric, the list and the check of `doctor`. */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Effect, Layer, Logger, Metric, References, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { layer as endingKeys } from "../../../src/http/auth/EndingKeys.ts"
import { MetricsEnabled } from "../../../src/telemetry/Telemetry.ts"
import { Supervisor } from "../../../src/work/Supervisor.ts"
import { Worker } from "../../../src/work/Worker.ts"
import { cli, documentOf } from "../../cli/Cli.support.ts"
import { makeProject } from "../../support/Projects.ts"
import { TestDatabase } from "../../support/TestDatabase.ts"

/** Keys by name: the days until they end, of how many, and since when they were used, if ever; one that is revoked. */
const keys = [
  { name: "soon", left: 3, of: 90, used: 1 },
  { name: "later", left: 13, of: 90, used: 29 },
  { name: "far", left: 15, of: 90, used: 1 },
  { name: "idle", left: 3, of: 90, used: 31 },
  { name: "unused", left: 3, of: 90, used: null },
  { name: "short", left: 3, of: 7, used: 1 },
  { name: "gone", left: -1, of: 90, used: 1 },
  { name: "revoked", left: 3, of: 90, used: 1 }
]

const fill = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  for (const project of ["acme", "rotating"]) yield* makeProject(project)
  for (const { left, name, of, used } of keys) {
    yield* sql`
      INSERT INTO api_keys
        (project_id, key_id, token_hash, name, scopes, lifetime, expires_at, created_at, last_used_at, revoked_at)
      SELECT 'acme', rpad(${name}, 12, 'x'), '', ${name}, '{}', ${of}::int * interval '1 day',
        now() + (${left}::int - 0.5) * interval '1 day', now() + (${left}::int - 0.5 - ${of}::int) * interval '1 day',
        now() - ${used}::int * interval '1 day', CASE WHEN ${name} = 'revoked' THEN now() END`
  }
  // A rotation has ended it at once.
  yield* sql`
    INSERT INTO api_keys (project_id, key_id, token_hash, name, scopes, lifetime, expires_at, created_at, last_used_at)
    VALUES ('rotating', 'rotatedxxxxx', '', 'rotated', '{}', interval '90 days', now() + interval '1 day', now(), now())`
})

const State = Schema.Struct({ items: Schema.Array(Schema.Struct({ name: Schema.String, state: Schema.String })) })
const Report = Schema.Struct({
  findings: Schema.Array(
    Schema.Struct({
      check: Schema.String,
      status: Schema.String,
      detail: Schema.String,
      advice: Schema.NullOr(Schema.String)
    })
  )
})

describe("keys that end within 14 days", () => {
  it.effect("are named once a day by the first worker, counted, and shown to operators, if they are in use", () => {
    const lines: Array<string> = []
    let isFirst = false
    let looks = 0
    const logger = Logger.make(({ fiber, message }) => {
      const { key_id: key = "" } = fiber.getRef(References.CurrentLogAnnotations)
      if (String(message).includes("in use")) lines.push(`${String(message)}: ${String(key)}`)
    })
    const worker = Layer.succeed(Worker, {
      id: 1n,
      leaseId: () => 1n,
      isOnly: () => false,
      isFirst: () => {
        looks++
        return isFirst
      },
      isDead: (sql) => sql`false`
    })
    const supervisor = Layer.succeed(Supervisor, {
      supervise: (_, __, loop) => Effect.forkScoped(Effect.ignore(Effect.scoped(loop(Effect.void)))),
      end: Effect.void,
      isEnding: () => false
    })
    const counted = Effect.map(Metric.snapshot, (all) => {
      const found = all.find(({ id }) => id === "api_keys_ending")
      return found?.type === "Gauge" ? Number(found.state.value) : undefined
    })
    return Effect.gen(function* () {
      yield* fill
      yield* Layer.build(endingKeys.pipe(Layer.provide([worker, supervisor])))
      const isCounted = (count: number | undefined) => count !== undefined
      const count = yield* TestClock.withLive(Effect.repeat(Effect.delay(counted, "20 millis"), { until: isCounted }))
      assert.strictEqual(count, 2)
      assert.deepStrictEqual(lines, [])
      isFirst = true
      const until = (holds: () => boolean) =>
        TestClock.adjust("20 seconds").pipe(
          Effect.andThen(TestClock.withLive(Effect.sleep("20 millis"))),
          Effect.repeat({ until: holds })
        )
      yield* until(() => lines.length >= 2)
      const named = ["A key in use ends within 3 days: soonxxxxxxxx", "A key in use ends within 13 days: laterxxxxxxx"]
      assert.deepStrictEqual(lines, named)
      const before = looks
      yield* until(() => looks > before + 1)
      assert.deepStrictEqual(lines, named)
      yield* TestClock.adjust("1 day")
      yield* until(() => lines.length >= 4)
      assert.deepStrictEqual(lines, [...named, ...named])

      const listed = Schema.decodeUnknownSync(State)(
        documentOf(yield* cli(["token", "list", "--project", "acme", "--json"]))
      )
      const states = Object.fromEntries(listed.items.map(({ name, state }) => [name, state]))
      assert.deepStrictEqual(states, {
        soon: "ending",
        later: "ending",
        far: "active",
        idle: "ending",
        unused: "ending",
        short: "ending",
        gone: "expired",
        revoked: "revoked"
      })
      const { findings } = Schema.decodeUnknownSync(Report)(documentOf(yield* cli(["doctor", "--json"])))
      assert.deepStrictEqual(
        findings.find(({ check }) => check === "tokens"),
        {
          check: "tokens",
          status: "warning",
          detail: "2 keys in use end within 14 days: the first within 3 days, soon of project acme",
          advice:
            "Run `npm run --silent cli -- token rotate --key soonxxxxxxxx` and give the new token to its caller; `npm run --silent cli -- token list --project acme` shows others."
        }
      )

      yield* (yield* SqlClient.SqlClient)`
        INSERT INTO api_keys (project_id, key_id, token_hash, name, scopes, lifetime, expires_at, created_at, last_used_at)
        SELECT 'acme', lpad(n::text, 12, '0'), '', 'many', '{}', interval '90 days', now() + interval '1 hour',
          now() - interval '89 days 23 hours', now() FROM generate_series(1, 25) n`
      lines.length = 0
      yield* TestClock.adjust("1 day")
      yield* until(() => lines.length >= 21)
      assert.deepStrictEqual([lines.length, lines[20]], [21, "7 more keys in use end within 14 days: "])
    }).pipe(
      Effect.provide(Layer.mergeAll(TestDatabase.layer, Logger.layer([logger]), Layer.succeed(MetricsEnabled, true))),
      Effect.provideService(Metric.MetricRegistry, new Map())
    )
  })
})
