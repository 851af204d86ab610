/** The overview with one of each failure on it: every number is compared with a count of the database of its own. */
import { assert, layer, providing } from "../support/Vitest.ts"
import { Effect, Layer } from "effect"
import { diskFull } from "../../src/sql/Database.ts"
import { holding } from "../support/Locks.ts"
import { open } from "../webhooks/delivery/Deliveries.support.ts"
import { untilRows } from "../support/Waiting.ts"
import { fillProject, sessionOf, Shared, startConsole } from "./Console.support.ts"
import { makeOutage } from "./Outage.support.ts"

const textOf = (html: string) =>
  html
    .replaceAll(/<[^>]*>/g, " ")
    .replaceAll(/\s+/g, " ")
    .trim()

/** Returns the rows of each table of a page by the first words of its caption, each with its cells by column. */
const tablesOf = (html: string) =>
  new Map(
    [...html.matchAll(/<table[^]*?<caption>([^]*?)<\/caption>([^]*?)<\/table>/g)].map(([, caption = "", body = ""]) => [
      textOf(caption),
      [...body.matchAll(/<tr role="row">([^]*?)<\/tr>/g)]
        .map(([, row = ""]) => [...row.matchAll(/<td[^>]*data-name="([^"]*)">([^]*?)<\/td>/g)])
        .filter((cells) => cells.length > 0)
        .map((cells) => Object.fromEntries(cells.map(([, name = "", cell = ""]) => [name, cell])))
    ])
  )

/** Returns the facts of a page by name. */
const factsOf = (html: string) =>
  Object.fromEntries(
    [...html.matchAll(/<dt>([^<]*)<\/dt>\s*<dd>([^]*?)<\/dd>/g)].map(([, name = "", value = ""]) => [
      name,
      textOf(value)
    ])
  )

/** Returns the exact time of a cell. */
const timeOf = (cell = "") => /datetime="([^"]*)"/.exec(cell)?.[1] ?? null

// One endpoint never answers.
const server = Layer.effect(Shared, startConsole({ WEBHOOK_TIMEOUT: "500ms" }))

layer(server, { excludeTestServices: true })("the overview", (it) => {
  it.effect("has no number that the database does not have, with one of each failure", function* () {
    const server = yield* Shared
    const sql = server.sql
    // A worker that hangs: a session that holds its lock, and does nothing more.
    const connection = yield* Effect.orDie(sql.reserve)
    const hung = (0x5d61n << 47n) | ((1n << 47n) - 2n)
    yield* Effect.orDie(
      connection.execute("SELECT pg_advisory_lock_shared(($1::bigint >> 32)::int, -2)", [String(hung)], undefined)
    )
    const outage = yield* makeOutage(server)
    const { projectId } = outage
    // A second project with failures, and one that another database serves, whose failures are shown there.
    const second = yield* fillProject(server)
    const moved = yield* fillProject(server)
    yield* Effect.orDie(sql`UPDATE projects SET move_state = 'switched' WHERE project_id = ${moved.projectId}`)

    // A webhook that an operator disabled, with the deliveries that this ended.
    yield* server.command("webhooks", "disable", "--project", projectId, "--installation", "five", "--yes")
    // A campaign that is paused, after recipients of it failed; and a message of unknown outcome of a campaign that was cancelled.
    yield* Effect.orDie(sql`
      UPDATE campaign_recipients SET status = 'failed', error_code = 'http_403'
      WHERE ctid = (SELECT ctid FROM campaign_recipients WHERE project_id = ${projectId} AND status = 'pending' LIMIT 1)`)
    yield* server.command("campaigns", "pause", "--project", projectId, "--campaign", "cmp_running", "--yes")
    yield* server.command("campaigns", "cancel", "--project", second.projectId, "--campaign", "cmp_running", "--yes")
    yield* Effect.orDie(sql`
      UPDATE messages SET status = 'unknown' WHERE project_id = ${second.projectId} AND campaign_id = 'cmp_running'`)
    // A dead delivery that a replay has delivered since, and a replay that is cancelled.
    yield* Effect.orDie(sql`
      UPDATE deliveries SET replayed_by = (SELECT max(id) FROM deliveries WHERE installation_id = 'one')
      WHERE id = (SELECT min(id) FROM deliveries WHERE project_id = ${projectId} AND installation_id = 'three' AND status = 'dead')`)
    yield* Effect.orDie(sql`
      INSERT INTO replays (project_id, id, installation_id, since, until, event_types, statuses, pace, state, matched, position,
        paced_at, created_at, finished_at)
      VALUES (${projectId}, 'rpl_a', 'one', '2026-01-01', '2026-01-02', '{}', '{dead}', 1, 'cancelled', 0, '', now(), now(), now())`)
    // Requests that were refused: of a key that was revoked, of one that floods, and, longer ago than a day, of another.
    const key = (yield* open(server)).token.slice(3, 15)
    yield* server.command("token", "revoke", "--key", key)
    yield* Effect.orDie(sql`
      INSERT INTO refused_requests (project_id, key_id, status, count, since, last_at)
      SELECT project_id, key_id, refused.* FROM api_keys, (VALUES
        (401, 1234, now(), now()), (429, 77, now(), now()), (403, 5, now() - interval '3 days', now() - interval '2 days')
      ) AS refused (status, count, since, last_at) WHERE key_id = ${key}`)
    // An endpoint that is behind: no worker takes its deliveries, as its row is locked.
    yield* Effect.orDie(sql`
      UPDATE endpoint_health SET open_from = '-infinity' WHERE project_id = ${projectId} AND installation_id = 'two'`)
    const lock = yield* holding(
      sql,
      Effect.orDie(
        sql`SELECT FROM endpoint_health WHERE project_id = ${projectId} AND installation_id = 'two' FOR UPDATE`
      )
    )
    yield* Effect.orDie(sql`
      INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at)
      SELECT project_id, new_id('dlv', now()), 'two', event_id, now() - interval '2 hours', now() FROM deliveries
      WHERE project_id = ${projectId} AND installation_id = 'two' LIMIT 1`)

    const count = (rows: string) =>
      Effect.map(
        Effect.orDie(
          sql<{ readonly count: number }>`
            SELECT count(*)::int FROM ${sql.literal(rows)} AND project_id <> ${moved.projectId}`
        ),
        ([row]) => row?.count ?? 0
      )
    const isUndecided = `status = 'unknown' AND available_at IS NULL`
    const seconds = Effect.map(
      Effect.orDie(sql<{ readonly failing: number }>`
        SELECT extract(epoch FROM clock_timestamp() - min(failing_since))::float8 AS failing FROM endpoint_health
          JOIN webhooks USING (project_id, installation_id) WHERE enabled AND project_id <> ${moved.projectId}`),
      ([row]) => row ?? assert.fail()
    )
    const { get } = yield* sessionOf(server)
    const page = Effect.map(get("/console"), ({ text }) => text)
    yield* untilRows(page, (text) => text.includes('<span class="badge bad">hangs</span>'))
    const before = yield* seconds
    const text = yield* page
    const after = yield* seconds
    const [tables, facts] = [tablesOf(text), factsOf(text)]
    const rowsOf = (caption: string) => {
      const [name, rows] = [...tables].find(([name]) => name.startsWith(caption)) ?? assert.fail(caption)
      tables.delete(name)
      return rows
    }

    // The sentence.
    const [enabled, failing, disabled, dead, undecided, paused] = yield* Effect.all([
      count("webhooks WHERE enabled"),
      count(
        "webhooks JOIN endpoint_health USING (project_id, installation_id) WHERE enabled AND failing_since IS NOT NULL"
      ),
      count("webhooks WHERE NOT enabled"),
      count("deliveries WHERE status = 'dead' AND replayed_by IS NULL"),
      count(`messages WHERE ${isUndecided}`),
      count("campaigns WHERE status = 'paused'")
    ])
    assert.deepStrictEqual([failing, disabled, undecided, paused], [3, 1, 5, 1])
    const summary = textOf(/<p class="summary"[^>]*>([^]*?)<\/p>/.exec(text)?.[1] ?? "")
    const said = new RegExp(
      `^1 worker hangs; 1 endpoint is behind; ${failing} of ${enabled} endpoints fail, the longest for (\\d+) (seconds?|minutes?); ` +
        `${disabled} webhook is disabled; ${dead} deliveries are dead; ${undecided} messages need a decision; ` +
        `${paused} campaign is paused; the oldest due delivery has waited 2 hours\\.$`
    ).exec(summary)
    assert.isNotNull(said, summary)
    const longest = Number(said?.[1]) * (said?.[2]?.startsWith("minute") === true ? 60 : 1)
    assert.isTrue(longest > before.failing - 60 && longest <= after.failing)

    // The facts.
    assert.deepStrictEqual(facts, {
      "Pending deliveries": String(yield* count("deliveries WHERE status = 'pending'"))
    })

    // The workers.
    const [live] = yield* Effect.orDie(sql<{ readonly count: number }>`
      SELECT count(DISTINCT (classid, objid))::int FROM pg_locks
      WHERE locktype = 'advisory' AND objsubid = 2 AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
    const workers = rowsOf("Workers")
    assert.strictEqual(workers.length, live?.count)
    const signs = workers.map((row) => [
      (row["Worker"] ?? "").includes(hung.toString(16)),
      /^\d+ seconds? ago hangs$/.test(textOf(row["Last sign"] ?? ""))
    ])
    assert.sameDeepMembers(signs, [
      [false, false],
      [true, true]
    ])

    // The endpoints.
    const endpoints = yield* Effect.orDie(sql<{
      readonly name: string
      readonly project: string
      readonly since: Date | null
      readonly until: Date | null
      readonly failure: string
      readonly waiting: number
    }>`
      SELECT installation_id AS name, project_id AS project, failing_since AS since, parked_until AS until,
        coalesce(last_failure ->> 'errorCode', 'status ' || (last_failure ->> 'statusCode')) AS failure, (
          SELECT count(*)::int FROM deliveries WHERE status IN ('pending', 'delivering')
            AND deliveries.project_id = webhooks.project_id AND deliveries.installation_id = webhooks.installation_id
        ) AS waiting
      FROM webhooks JOIN endpoint_health USING (project_id, installation_id)
      WHERE enabled AND failing_since IS NOT NULL ORDER BY failing_since, project_id, installation_id`)
    assert.deepStrictEqual(
      rowsOf("Failing endpoints").map((row) => ({
        name: textOf(row["Webhook"] ?? ""),
        state: textOf(row["State"] ?? ""),
        since: timeOf(row["Failing since"]),
        failure: textOf(row["Last failure"] ?? ""),
        waiting: Number(textOf(row["Waiting"] ?? "")),
        next: timeOf(row["Next attempt"])
      })),
      endpoints.map(({ failure, name, since, until, waiting }) => ({
        name,
        state: "parked",
        since: since?.toISOString() ?? null,
        failure,
        waiting,
        next: until?.toISOString() ?? null
      }))
    )
    assert.deepStrictEqual(
      rowsOf("Endpoints that ask for no pause").map((row) =>
        ["Webhook", "In flight", "Oldest due delivery"].map((name) => textOf(row[name] ?? ""))
      ),
      [["two", "0", "2 hours"]]
    )

    // The projects, each of which counts its own.
    const inProject = (rows: string, id: string) => count(`${rows} AND project_id = '${id}'`)
    const projects = yield* Effect.forEach([projectId, second.projectId].toSorted(), (id) =>
      Effect.all([
        Effect.succeed(id),
        inProject("deliveries WHERE status = 'dead' AND replayed_by IS NULL", id),
        inProject(`messages WHERE ${isUndecided}`, id),
        inProject("webhooks WHERE NOT enabled", id),
        inProject("campaigns WHERE status = 'paused'", id)
      ])
    )
    assert.deepStrictEqual(
      rowsOf("Projects where something waits").map((row) => Object.values(row).map(textOf)),
      projects.map((row) => row.map(String))
    )

    // The refused requests, by key and status.
    assert.deepStrictEqual(
      rowsOf("Keys with the most requests").map((row) => [
        (row["Key"] ?? "").includes(key),
        textOf(row["Status"] ?? ""),
        textOf(row["Requests"] ?? "")
      ]),
      [
        [true, "401 token refused", "1234"],
        [true, "429 too many", "77"]
      ]
    )

    // The attempts, those of the project that was moved included.
    const [attempts = assert.fail()] = yield* Effect.orDie(sql<{ readonly delivered: number; readonly failed: number }>`
      SELECT (count(*) FILTER (WHERE entry ->> 'statusCode' = '200'))::int AS delivered,
        (count(*) FILTER (WHERE coalesce(entry ->> 'statusCode', '') <> '200'))::int AS failed
      FROM deliveries, jsonb_array_elements(attempt_log) entry`)
    const slices = rowsOf("Attempts in slices")
    const sum = (name: string) => slices.reduce((sum, row) => sum + Number(textOf(row[name] ?? "")), 0)
    assert.deepStrictEqual({ delivered: sum("Delivered"), failed: sum("Failed") }, attempts)
    assert.include(text, `aria-label="Attempts: ${attempts.delivered} delivered, ${attempts.failed} failed"`)

    // The webhook that was parked when it was disabled.
    const { text: webhook } = yield* get(`/console/webhook?project=${projectId}&installation=five`)
    assert.match(textOf(webhook), /parked nothing is sent while the webhook is disabled/)

    assert.deepStrictEqual([...tables.keys()], [], "a table that is compared with nothing")
    yield* lock.release
  })
})

providing(Layer.empty)("the overview says that the disk is full, as soon as a write was refused for it", function* () {
  const server = yield* startConsole()
  const { token } = yield* open(server)
  const { get } = yield* sessionOf(server)
  const said = "The disk of the database is full: writes fail"
  assert.notInclude((yield* get("/console")).text, said)
  yield* Effect.orDie(server.sql`
    CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN RAISE 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$`)
  yield* Effect.orDie(server.sql`CREATE TRIGGER no_room BEFORE INSERT ON clients EXECUTE FUNCTION no_room()`)
  const { status } = yield* server.send({
    method: "POST",
    path: "/api/v1/developer/crm/clients",
    token,
    json: { displayName: "Nobody" },
    headers: { "idempotency-key": "no-room-left" }
  })
  assert.strictEqual(status, 503)
  assert.include((yield* get("/console")).text, `>${said}; nothing is overdue.`)
  // Other tests run in this process.
  diskFull.at = -Infinity
})

providing(Layer.empty)("the overview says that Redis does not answer", function* () {
  const server = yield* startConsole({ REDIS_URL: "redis://127.0.0.1:9" })
  const { get } = yield* sessionOf(server)
  assert.include(
    (yield* get("/console")).text,
    ">Redis does not answer: requests but sends of messages are refused; nothing is overdue."
  )
})
