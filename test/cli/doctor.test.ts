/** `doctor`: its findings when everything is in order, and when one thing is not. */
import { assert, describe, it, providing } from "../support/Vitest.ts"
import { Effect, Redacted, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { once } from "node:events"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import { join } from "node:path"
import { makeRedis } from "../faults/Redis.support.ts"
import { startCollector } from "../faults/Collector.support.ts"
import { hang, openShop, serve } from "../webhooks/delivery/Deliveries.support.ts"
import { subscribe } from "../support/Events.ts"
import { holding } from "../support/Locks.ts"
import { requires } from "../support/Programs.ts"
import { moveTexts } from "../../src/platform/MoveState.ts"
import { makeDatabase, TestDatabase } from "../support/TestDatabase.ts"
import { secretKey } from "../support/TestServer.ts"
import { at, cli, type Ended, type Options, run } from "./Cli.support.ts"

const Report = Schema.fromJsonString(
  Schema.Struct({
    findings: Schema.Array(
      Schema.Struct({
        check: Schema.String,
        status: Schema.Literals(["ok", "warning", "failed", "skipped"]),
        detail: Schema.NonEmptyString,
        advice: Schema.NullOr(Schema.NonEmptyString)
      })
    )
  })
)

const reportOf = ({ stdout }: Ended) => Schema.decodeSync(Report)(stdout).findings

const examine = (options?: Options) => cli(["doctor", "--json"], options)

/** Returns the findings that are not ok, skipped checks included. */
const findingsOf = (ended: Ended) =>
  reportOf(ended)
    .filter(({ status }) => status !== "ok")
    .map(({ check, status }) => `${check} ${status}`)

/** Runs the command lines of the advice as they would be pasted, and returns their exit statuses. */
const pasteAdvice = Effect.fnUntraced(function* (ended: Ended, options: Options) {
  const advice = reportOf(ended).map((finding) => finding.advice ?? "")
  const lines = advice.flatMap((text) =>
    [...text.matchAll(/`npm run --silent cli -- ([^`]+)`/g)].map(([, line = ""]) => line)
  )
  return yield* Effect.forEach(lines, (line) =>
    Effect.map(run(line.split(" "), options), ({ status }) => [line, status])
  )
})

/** Asserts that the command failed for this check alone, with a matching detail and advice. */
const assertTrouble = (ended: Ended, check: string, detail: RegExp, advice: RegExp) => {
  const found = reportOf(ended).find((finding) => finding.check === check)
  assert.match(found?.detail ?? "", detail)
  assert.match(found?.advice ?? "", advice)
  assert.strictEqual(ended.status, 1)
  assert.strictEqual(ended.stderr, `Not in order: ${check}\n`)
}

const test = providing(TestDatabase.layer)

const project = { id: "acme", name: "Acme" }
const channel = { id: "chat", providerType: "sandbox", displayName: "Chat", config: {} }

describe("doctor", () => {
  test("lists each check and finds everything in order", function* () {
    const ended = yield* examine()
    assert.deepStrictEqual([ended.status, ended.stderr, findingsOf(ended)], [0, "", []])
    assert.deepStrictEqual(
      reportOf(ended).map(({ check }) => check),
      [
        "settings",
        "database",
        "pooler",
        "migrations",
        "clock",
        "keys",
        "workers",
        "work",
        "requests",
        "tokens",
        "moves",
        "limiter",
        "telemetry"
      ]
    )
    assert.match(reportOf(ended)[1]?.detail ?? "", /^PostgreSQL \d+/)
    const text = yield* cli(["doctor"])
    assert.strictEqual(text.status, 0)
    assert.match(text.stdout, /^ok {7}settings {5}every variable is well formed\nok {7}database/)
  })

  test("reports a faulty setting and stops", function* () {
    const ended = yield* examine({ env: { PORT: "x" } })
    assertTrouble(ended, "settings", /^PORT must be/, /SETTINGS/)
    assert.strictEqual(reportOf(ended).length, 1)
  })

  test("reports an unreachable database without its password", function* () {
    const ended = yield* examine({ env: { DATABASE_URL: "postgres://someone:s3cret@127.0.0.1:1/nowhere" } })
    assertTrouble(ended, "database", /ECONNREFUSED/, /DATABASE_URL/)
    const skipped = ["migrations", "clock", "keys", "workers", "work", "requests", "tokens", "moves"].map(
      (check) => `${check} skipped`
    )
    assert.deepStrictEqual(findingsOf(ended), ["database failed", ...skipped])
    assert.notInclude(ended.stdout + ended.stderr, "s3cret")
  })

  test("reports DATABASE_URL and DATABASE_DIRECT_URL that lead to different databases", function* () {
    const { url } = yield* TestDatabase
    const other = yield* makeDatabase()
    const env = { ...at(other), DATABASE_DIRECT_URL: Redacted.value(url) }
    assertTrouble(yield* examine({ env }), "pooler", /different databases/, /Correct/)
  })

  test("reports tables that sessions through the pooler do not find", function* () {
    const { url } = yield* TestDatabase
    const sql = yield* SqlClient.SqlClient
    const direct = Redacted.value(url)
    yield* sql`CREATE ROLE without_path SUPERUSER LOGIN PASSWORD 'pooled'`
    yield* sql`ALTER ROLE without_path SET search_path = ''`
    const pooled = Object.assign(new URL(direct), { username: "without_path", password: "pooled" })
    const env = { ...at(Redacted.make(pooled.href)), DATABASE_DIRECT_URL: direct }
    assertTrouble(yield* examine({ env }), "pooler", /not found through the pooler/, /search_path/)
  })

  test("reports channels whose config SECRET_KEY does not open", function* () {
    const { url } = yield* TestDatabase
    const env = at(url)
    const applied = yield* run(["project", "apply", "-"], {
      env,
      stdin: JSON.stringify({ project, channels: [channel] })
    })
    assert.strictEqual(applied.status, 0, applied.stderr)
    assert.deepStrictEqual(findingsOf(yield* examine({ env })), [])
    assertTrouble(yield* examine({ env: at(url) }), "keys", /channel acme\/chat/, /SECRET_KEY/)
  })

  test("reports every project whose move has not ended, also without a replication slot", function* () {
    const { url } = yield* TestDatabase
    const env = at(url)
    yield* run(["project", "apply", "-"], { env, stdin: JSON.stringify({ project }) })
    const sql = yield* SqlClient.SqlClient
    for (const [state, words] of Object.entries(moveTexts)) {
      yield* sql`UPDATE projects SET move_state = ${state}`
      const ended = yield* examine({ env })
      assert.deepStrictEqual([ended.status, findingsOf(ended)], [0, ["moves warning"]], state)
      assert.include(ended.stdout, words)
    }
    yield* sql`UPDATE projects SET move_state = NULL`
  })

  test("reports work for an operator without failing, and fails for work that no worker took over", function* () {
    const { url } = yield* TestDatabase
    const env = at(url)
    const conversation = { id: "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8", channelId: "chat", address: "somebody" }
    const stdin = JSON.stringify({ project, channels: [channel], conversations: [conversation] })
    yield* run(["project", "apply", "-"], { env, stdin })
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      INSERT INTO messages (project_id, id, conversation_id, channel_id, provider_type, address, text, status, attempts,
        attempting, attempt_log, available_at, traceparent, created_at, updated_at)
      VALUES ('acme', 'msg', ${conversation.id}, 'chat', 'telegram', 'somebody', 'Ready.', 'unknown', 1,
        false, '[]', NULL, '', now(), now())`
    const waiting = yield* examine({ env })
    assert.deepStrictEqual([waiting.status, findingsOf(waiting)], [0, ["work warning"]])
    assert.include(waiting.stdout, '"1 message needs a decision"')
    assert.deepStrictEqual(yield* pasteAdvice(waiting, { env }), [["messages list --project acme --status unknown", 0]])
    yield* sql`UPDATE messages SET attempting = true, available_at = now() - interval '2 minutes'`
    assertTrouble(yield* examine({ env }), "work", /^1 attempt was left/, /worker/)
    // Another cell serves the project, so the commands would not find it.
    yield* sql`UPDATE projects SET move_state = 'switched'`
    assert.deepStrictEqual(findingsOf(yield* examine({ env })), ["moves warning"])
    yield* sql`UPDATE messages SET attempting = false, available_at = NULL`
    assert.deepStrictEqual(findingsOf(yield* examine({ env })), ["moves warning"])
    yield* sql`UPDATE projects SET move_state = NULL`
    yield* sql`DELETE FROM messages`

    yield* subscribe(sql, "acme", "shop")
    yield* sql`
      INSERT INTO endpoint_health (project_id, installation_id, failures, strikes, failing_since, parked_until)
      VALUES ('acme', 'shop', 10, 10, now() - interval '18 minutes', now() + interval '1 minute')`
    const failing = yield* examine({ env })
    assert.deepStrictEqual([failing.status, findingsOf(failing)], [0, ["work warning"]])
    assert.include(failing.stdout, '"1 of 1 endpoint fails, for 18 minutes"')
    assert.deepStrictEqual(yield* pasteAdvice(failing, { env }), [["webhooks list --project acme", 0]])
  })

  test("does not wait for what holds a lock, and names it", function* () {
    const { url } = yield* TestDatabase
    const sql = yield* SqlClient.SqlClient
    const lock = yield* holding(sql, sql`LOCK TABLE deliveries IN ACCESS EXCLUSIVE MODE`)
    const ended = yield* examine({ env: at(url) })
    yield* lock.release
    assert.deepStrictEqual(findingsOf(ended), ["workers failed", "work failed"])
    const found = reportOf(ended).find(({ check }) => check === "work")
    assert.match(found?.detail ?? "", /lock timeout/)
    assert.match(found?.advice ?? "", /pg_blocking_pids/)
  })

  test("asks a collector at a port that browsers avoid", function* () {
    const server = createServer((_, response) => response.end())
    yield* Effect.promise(() => once(server.listen(6669, "127.0.0.1"), "listening"))
    const ended = yield* examine({ env: { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:6669" } })
    server.close()
    assert.deepStrictEqual(findingsOf(ended), [])
  })

  test("names the workers and the oldest due delivery, and fails if that has no worker", function* () {
    const server = yield* serve({ WEBHOOK_TIMEOUT: "1m" })
    const env = { DATABASE_URL: server.databaseUrl, SECRET_KEY: secretKey }
    const found = (ended: Ended) => reportOf(ended).find(({ check }) => check === "workers")
    const detail = Effect.map(examine({ env }), (ended) => found(ended)?.detail ?? "")
    assert.match(
      yield* detail,
      /^1 worker: [0-9a-f]+ \(all, [\d.]+, on .+; last sign \d+\.\d s ago\); nothing is overdue$/
    )

    // An endpoint that answers well, but slowly.
    const shop = yield* openShop(server, hang)
    yield* shop.created()
    yield* shop.queue(20, "15 minutes")
    const slow = found(yield* examine({ env }))
    assert.strictEqual(slow?.status, "warning")
    assert.match(slow?.detail ?? "", /; 1 endpoint is behind; the oldest due delivery has waited 1[56] minutes$/)

    const other = yield* TestDatabase
    yield* run(["project", "apply", "-"], { env: at(other.url), stdin: JSON.stringify({ project }) })
    const sql = yield* SqlClient.SqlClient
    yield* subscribe(sql, "acme", "shop")
    yield* sql`INSERT INTO endpoint_health (project_id, installation_id) VALUES ('acme', 'shop')`
    yield* sql`
      WITH event AS (
        INSERT INTO events (project_id, id, type, data, traceparent, occurred_at) VALUES ('acme', 'evt', 'x', '{}', '', now())
        RETURNING *
      )
      INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
      SELECT project_id, 'dlv', 'shop', id, now() - interval '90 seconds', now() FROM event`
    assertTrouble(
      yield* examine({ env: at(other.url) }),
      "workers",
      /^no worker runs: nothing is sent in the background; 1 endpoint is behind; the oldest due delivery has waited [12] minutes?$/,
      /--role worker/
    )
  })

  describe("doctor with REDIS_URL", () => {
    requires("redis")

    test("reports whether Redis and the collector answer", function* () {
      const redis = yield* Effect.promise(() => makeRedis())
      const collector = yield* Effect.promise(() => startCollector())
      yield* Effect.promise(() => redis.start())
      const env = { REDIS_URL: redis.url, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url }
      const reachable = yield* examine({ env })
      assert.deepStrictEqual([reachable.status, reachable.stderr, findingsOf(reachable)], [0, "", []])
      const details = reportOf(reachable).map(({ detail }) => detail)
      assert.includeMembers(details, [`Redis answers (127.0.0.1:${redis.port})`, `${collector.url} answers`])
      yield* Effect.promise(() => redis.kill())
      const unreachable = yield* examine({ env: { ...env, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9" } })
      assert.deepStrictEqual(findingsOf(unreachable), ["limiter failed", "telemetry warning"])
      assertTrouble(unreachable, "limiter", /does not answer/, /REDIS_URL/)
    })
  })
})

it.effect("the advice of doctor has commands with every flag that they require", function* () {
  const files = [
    "cli/commands/doctor.ts",
    "cli/commands/doctor/Checks.ts",
    "cli/commands/doctor/Work.ts",
    "operators/Troubles.ts"
  ]
  const sources = files.map((file) => readFileSync(join(import.meta.dirname, "../../src", file), "utf8"))
  const lines = sources.flatMap((source) => [...source.matchAll(/\\`\$\{cli\} (.*?)\\`/g)].map(([, line = ""]) => line))
  assert.isAtLeast(lines.length, 4)
  for (const line of lines) {
    // The settings are read after the usage is checked, and are faulty here.
    const ended = yield* run(line.replaceAll(/\$\{.*?\}/g, "acme").split(" "), { env: { PORT: "x" } })
    assert.match(ended.stderr, /^PORT must be/, line)
  }
})

test("doctor of a database reports that its collation has another version", function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`UPDATE pg_database SET datcollversion = '1' WHERE datname = current_database()`
  const found = reportOf(yield* examine()).find(({ check }) => check === "database")
  assert.strictEqual(found?.status, "warning")
  assert.match(found?.detail ?? "", /another version of its collation/)
})

test("doctor of a database reports migrations that are missing, changed, or of a newer version", function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE kept AS SELECT * FROM applied_migrations`
  yield* sql`DELETE FROM applied_migrations WHERE name = (SELECT max(name) FROM applied_migrations)`
  const pending = yield* examine({ env: { MIGRATE_ON_START: "false" } })
  assertTrouble(pending, "migrations", /^1 pending$/, /cli -- migrate`/)
  const next = yield* examine()
  assert.deepStrictEqual(
    [next.status, findingsOf(next)],
    [
      0,
      [
        "migrations warning",
        "keys skipped",
        "workers skipped",
        "work skipped",
        "requests skipped",
        "tokens skipped",
        "moves skipped"
      ]
    ]
  )
  yield* sql`INSERT INTO applied_migrations SELECT * FROM kept ON CONFLICT DO NOTHING`
  yield* sql`INSERT INTO applied_migrations (name, checksum) VALUES ('9999_later', '')`
  assertTrouble(yield* examine(), "migrations", /^1 applied by a newer version$/, /version/)
  yield* sql`UPDATE applied_migrations SET checksum = '' WHERE name = '0002_crm'`
  assertTrouble(yield* examine(), "migrations", /^Migration 0002_crm was changed after/, /restore/)
})
