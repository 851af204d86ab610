/** The database of commands, and their errors when it is unusable. */
import { NodeServices } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect, FileSystem, Redacted, Schema } from "effect"
import { rm } from "node:fs/promises"
import { endpoint } from "../support/Endpoints.ts"
import { openDirectory } from "../support/Postgres.ts"
import { makeProject } from "../support/Projects.ts"
import { put } from "../support/Rows.ts"
import { makeDatabase } from "../support/TestDatabase.ts"
import { at, documentOf, failure, run, start } from "./Cli.support.ts"

const list = ["token", "list", "--project", "p"]
const decodeApplied = Schema.decodeUnknownSync(Schema.Struct({ applied: Schema.Array(Schema.String) }), {
  onExcessProperty: "error"
})

const dataDir = Effect.acquireRelease(
  Effect.promise(() => openDirectory("developer-api-cli-")),
  (directory) => Effect.promise(() => rm(directory, { recursive: true }))
)

describe("a command with DATABASE_URL", () => {
  it.live("migrates the database only if it is `migrate`", function* () {
    const env = at(yield* makeDatabase({ empty: true }))
    const early = yield* run(list, { env })
    assert.match(early.stderr, /^\d+ migrations are pending: run `npm run --silent cli -- migrate`\n$/)
    assert.deepStrictEqual(early, failure(1, early.stderr.trimEnd()))

    const { applied } = decodeApplied(documentOf(yield* run(["migrate", "--json"], { env })))
    assert.strictEqual(applied[0], "0001_projects")
    assert.deepStrictEqual(decodeApplied(documentOf(yield* run(["migrate", "--json"], { env }))).applied, [])
    const again = yield* run(["migrate"], { env })
    assert.deepStrictEqual(again, { status: 0, stdout: "Nothing to do: every migration is applied\n", stderr: "" })
    assert.deepStrictEqual(yield* run(list, { env }), failure(1, 'There is no project "p"'))
  })

  it.live("pauses the campaigns of a restored database that would send, scheduled ones included", function* () {
    const url = yield* makeDatabase()
    const env = at(url)
    yield* Effect.gen(function* () {
      const sql = yield* PgClient.PgClient
      for (const projectId of ["aaa", "acme"]) {
        yield* makeProject(projectId)
        yield* put(sql, "channels", { project_id: projectId, id: "channel", source_id: "source" })
        yield* sql`
          INSERT INTO templates (project_id, id, version, name, body) VALUES (${projectId}, 'template', 1, 'T', 'Hello')`
        for (const status of ["draft", "scheduled", "running", "completed"]) {
          yield* sql`
            INSERT INTO audiences (project_id, id, filter, candidate_count, eligible_count, merged, filter_mismatch,
              consent_not_granted, suppressed, channel_unavailable, duplicate, created_at)
            VALUES (${projectId}, ${status}, '{}', 0, 0, 0, 0, 0, 0, 0, 0, now())`
          const plan = { scheduled_for: "now", sends_per_minute: 1 }
          yield* put(sql, "campaigns", {
            project_id: projectId,
            id: status,
            status,
            audience_id: status,
            primary_channel_id: "channel",
            primary_template_id: "template",
            primary_template_version: 1,
            ...(status === "draft" ? {} : plan)
          })
        }
      }
      // Another database serves this project, so its campaigns stay as they are.
      yield* sql`UPDATE projects SET move_state = 'switched' WHERE project_id = 'aaa'`
      const paused = yield* run(["migrate", "--restored"], { env })
      assert.deepStrictEqual([paused.status, paused.stderr], [0, ""])
      assert.match(paused.stdout, /\nPaused 2 campaigns\n  acme running\n  acme scheduled\n$/)
      assert.deepStrictEqual(
        yield* sql`SELECT id, status, paused_from FROM campaigns WHERE project_id = 'acme' ORDER BY id`.values,
        [
          ["completed", "completed", null],
          ["draft", "draft", null],
          ["running", "paused", "running"],
          ["scheduled", "paused", "scheduled"]
        ]
      )
    }).pipe(Effect.provide(PgClient.layer({ url })))
  })

  it.live("prints one line with the variable's name when the database is unusable", function* () {
    const { href } = new URL(Redacted.value(yield* makeDatabase()))
    const other = (change: (url: URL) => void) => {
      const url = new URL(href)
      change(url)
      return { env: at(Redacted.make(url.href)) }
    }
    const closed = other((url) => (url.port = "9"))
    const wrongPassword = other((url) => (url.password = "wrong"))
    const absent = other((url) => (url.pathname = "/absent"))
    const refused = failure(1, "The database can't be used: connect ECONNREFUSED 127.0.0.1:9")
    assert.deepStrictEqual(yield* run(list, closed), refused)
    assert.deepStrictEqual(yield* run(["migrate", "--json"], closed), refused)
    for (const role of ["all", "worker"]) {
      assert.deepStrictEqual(yield* run(["serve", "--role", role], closed), refused)
    }
    assert.deepStrictEqual(
      yield* run(list, wrongPassword),
      failure(1, `The database can't be used: password authentication failed for user "${new URL(href).username}"`)
    )
    assert.deepStrictEqual(
      yield* run(["migrate"], absent),
      failure(1, `The database can't be used: database "absent" does not exist`)
    )
  })

  it.live("prints which migration failed and why", function* () {
    const url = yield* makeDatabase({ empty: true })
    yield* Effect.gen(function* () {
      const sql = yield* PgClient.PgClient
      yield* sql`CREATE TABLE projects ()`
    }).pipe(Effect.provide(PgClient.layer({ url })))
    const failed = failure(1, 'Migration 0001_projects failed: relation "projects" already exists')
    assert.deepStrictEqual(yield* run(["migrate"], { env: at(url) }), failed)
  })

  it.live("fails within seconds when no server answers", function* () {
    const { port } = yield* endpoint(() => {}, { connected: () => {} })
    const env = at(Redacted.make(`postgres://u:p@127.0.0.1:${port}/x`))
    const silent = failure(1, "The database can't be used: Connection timed out")
    assert.deepStrictEqual(yield* run(list, { env }), silent)
  })
})

describe("commands with DATA_DIR", () => {
  it.live("create, share, start and stop the embedded database as needed, and the key that seals channel configs", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const DATA_DIR = yield* dataDir
      const env = { DATA_DIR, PORT: "0" }
      const isRunning = fs.exists(`${DATA_DIR}/postgres/postmaster.pid`)
      const config = { url: "https://chat.example/", signingSecret: "whsec_c2VjcmV0" }
      const apply = (channel: object) =>
        run(["project", "apply", "-", "--json"], {
          env,
          stdin: JSON.stringify({
            project: { id: "p", name: "P" },
            channels: [{ id: "chat", providerType: "http", displayName: "Chat", ...channel }]
          })
        })
      const [nothing, unread] = yield* Effect.all([run(["doctor", "--json"], { env }), run(list, { env })])
      assert.include(nothing.stdout, `There is no database in ${DATA_DIR}`)
      assert.strictEqual(unread.status, 1)
      assert.match(unread.stderr, /There is no database in .*: set DATA_DIR to the folder of the service/)
      assert.isFalse(yield* fs.exists(`${DATA_DIR}/postgres`))
      assert.deepInclude(documentOf(yield* apply({ config })), { created: { project: 1, channels: 1 } })
      assert.isFalse(yield* isRunning)

      const service = yield* start(["serve"], { env })
      yield* Effect.sleep("25 millis").pipe(
        Effect.repeat({ until: () => service.stdout().includes("listening on") || service.child.exitCode !== null })
      )
      // Only who has the key can keep a config that the file leaves out.
      assert.deepInclude(documentOf(yield* apply({})), { unchanged: { project: 1, channels: 1 } })
      assert.isTrue(yield* isRunning)
      service.child.kill("SIGTERM")
      assert.strictEqual((yield* service.ended).status, 0)
      assert.isFalse(yield* isRunning)

      // A signal ends it, too.
      const { child, ended } = yield* start(list, { env })
      yield* Effect.sleep("25 millis").pipe(Effect.andThen(isRunning), Effect.repeat({ until: (running) => running }))
      child.kill("SIGINT")
      assert.deepStrictEqual(yield* ended, { status: 130, stdout: "", stderr: "" })
      assert.isFalse(yield* isRunning)

      // The service does not start either, with or without channels, and prints the reason.
      yield* fs.writeFileString(`${DATA_DIR}/secret-key`, "garbage")
      assert.deepStrictEqual(
        yield* apply({}),
        failure(
          1,
          `${DATA_DIR}/secret-key does not hold 32 bytes in base64: restore it, or set SECRET_KEY to the key that it held`
        )
      )
    }).pipe(Effect.provide(NodeServices.layer))
  )
})

it.live("a command with faulty settings prints each fault on a line", function* () {
  const env = { PORT: "x", SHUTDOWN_GRACE: "3", DATABASE_URL: "postgres://u:p@127.0.0.1:9/x" }
  for (const args of [list, ["migrate", "--json"], ["serve"]]) {
    assert.deepStrictEqual(
      yield* run(args, { env }),
      failure(
        1,
        "PORT must be an integer from 0 to 65535",
        "SHUTDOWN_GRACE must be a duration in ms, s, m, h or d that is longer than zero, such as 250ms, 5s, 2m, 24h or 7d",
        "SECRET_KEY is required when DATABASE_URL is set: 32 bytes in base64 (`openssl rand -base64 32`)"
      )
    )
  }
})
