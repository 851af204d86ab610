/** What a move needs of the roles of both sides; what a project at rest waits for, and for how long (contract §18). */
import { assert, layer } from "@effect/vitest"
import { PgClient } from "@effect/sql-pg"
import { Duration, Effect, Fiber, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import type { ProjectId } from "../../src/api/schema/Ids.ts"
import { check, fence, limited, rest } from "../../src/cells/Checks.ts"
import { move } from "../../src/cells/Moves.ts"
import { seeds, type Sides } from "../../src/cells/Sides.ts"
import { Operator } from "../../src/operating/Audit.ts"
import type { SealedTable } from "../../src/secrets/SealedValues.ts"
import { removeProject } from "../../src/project/Deletion.ts"
import { untilBlocking } from "../support/Locks.ts"
import { makeProject } from "../support/Projects.ts"
import { secretBox } from "../support/SecretBox.ts"
import { makeDatabase, TestDatabase } from "../support/TestDatabase.ts"

const box = secretBox(Buffer.alloc(32).toString("base64"))

/** Both sides of a move on one database. */
const sidesOf = (projectId: ProjectId, sql: SqlClient.SqlClient): Sides => ({
  projectId,
  source: sql,
  target: sql,
  name: "",
  sourceUrl: Redacted.make(""),
  sourceId: "source",
  targetId: "other"
})

/** The session of a mover of a project whose rows are copied. */
const mover = Effect.fnUntraced(function* (id: string) {
  const projectId = yield* makeProject(id)
  const { url } = yield* TestDatabase
  const context = yield* Layer.build(Layer.fresh(PgClient.layer({ url, maxConnections: 1 })))
  const source = yield* Effect.provide(Effect.service(SqlClient.SqlClient), context)
  yield* source`UPDATE projects SET move_state = 'copying', move_peer = 'other' WHERE project_id = ${id}`
  yield* source`SELECT pg_advisory_lock(hashtextextended(${id}, ${seeds.mover}))`
  return sidesOf(projectId, source)
})

/** Lets time pass in steps until a wait has ended, by itself or at its limit. */
const ended = Effect.fnUntraced(function* <A, E>(wait: Effect.Effect<A, E>, step: Duration.Input = "1 second") {
  const fiber = yield* Effect.forkChild(wait)
  yield* Effect.repeat(Effect.andThen(TestClock.adjust(step), TestClock.withLive(Effect.sleep("5 millis"))), {
    until: () => fiber.pollUnsafe() !== undefined
  })
  return yield* Fiber.join(fiber)
})

const sending = Effect.fnUntraced(function* (projectId: string, workerId: string | null) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO channels (project_id, id, source_id, provider_type, display_name, status, config, connected_at)
    VALUES (${projectId}, 'bot', 'bot', 'sandbox', 'Bot', 'active', '', now()) ON CONFLICT DO NOTHING`
  yield* sql`
    INSERT INTO conversations (project_id, id, channel_id, address, observed_at)
    VALUES (${projectId}, 'talk', 'bot', '4711', now()) ON CONFLICT DO NOTHING`
  yield* sql`
    INSERT INTO messages (project_id, id, conversation_id, channel_id, provider_type, address, text, status, attempts,
      attempting, worker_id, attempt_log, available_at, traceparent, created_at, updated_at)
    VALUES (${projectId}, ${`by-${workerId ?? "request"}`}, 'talk', 'bot', 'sandbox', '4711', 'Hello', 'pending', 1,
      true, ${workerId}::bigint, '[{}]', now() + interval '1 hour', '', now(), now())`
})

/** Runs an effect while a transaction is open that has written something. */
const openTransaction = <A, E>(during: Effect.Effect<A, E>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql`SELECT pg_current_xact_id()::text AS xid`.pipe(Effect.andThen(during), sql.withTransaction)
  )

layer(TestDatabase.layer)("a project at rest", (it) => {
  it.effect("is not held up by calls that requests make themselves", () =>
    Effect.gen(function* () {
      const sides = yield* mover("sending")
      yield* sending("sending", null)
      yield* ended(rest(sides), "50 millis")
    })
  )

  it.effect("works on as before when what workers have claimed does not end within two minutes", () =>
    Effect.gen(function* () {
      const sides = yield* mover("claimed")
      yield* sending("claimed", "42")
      const { message } = yield* Effect.flip(ended(rest(sides)))
      assert.strictEqual(
        message,
        "The rest was ended after 2m: calls are in flight, transactions are open, or the target is not level\nThe project works on as before: run again"
      )
      // The session of the mover ends with its run.
      yield* sides.source`SELECT pg_advisory_unlock_all()`
      assert.deepStrictEqual(yield* sides.source`SELECT resting_projects() AS resting`, [{ resting: [] }])
    })
  )

  it.effect("works on as before when an older transaction does not end within two minutes", () =>
    Effect.gen(function* () {
      const sides = yield* mover("held-up")
      yield* openTransaction(
        Effect.gen(function* () {
          const { message } = yield* Effect.flip(ended(rest(sides)))
          assert.match(message, /^The rest was ended after 2m: /)
        })
      )
    })
  )

  it.effect("is not switched while an older transaction is open, as then neither side would answer until it ends", () =>
    Effect.gen(function* () {
      const sides = yield* mover("fenced")
      yield* ended(rest(sides), "50 millis")
      yield* openTransaction(
        Effect.gen(function* () {
          const fenced = fence(sides).pipe(limited(Duration.seconds(45), "The fence was lifted"))
          const { message } = yield* Effect.flip(ended(fenced))
          assert.match(message, /^The fence was lifted after 45s: /)
        })
      )
    })
  )
})

layer(TestDatabase.layer, { excludeTestServices: true })("a move and a deletion of one project", (it) => {
  it.effect("exclude each other: a deletion that comes after the beginning of the move removes nothing", () =>
    Effect.gen(function* () {
      const { projectId, source } = yield* mover("moving")
      const { message } = yield* Effect.flip(
        Effect.provideService(
          removeProject(projectId, null, () => Effect.void),
          Operator,
          { actor: "test" }
        )
      )
      assert.strictEqual(message, "Project moving is being moved: end that by `project move` at its source")
      assert.deepStrictEqual(
        yield* source`SELECT move_state, deleted_at FROM projects WHERE project_id = ${projectId}`,
        [{ move_state: "copying", deleted_at: null }]
      )
    })
  )

  it.effect("exclude each other: a move that read the project before its deletion makes nothing", () =>
    Effect.gen(function* () {
      const { projectId, source } = yield* mover("deleting")
      yield* source`UPDATE projects SET move_state = NULL, move_peer = NULL WHERE project_id = ${projectId}`
      yield* source`SELECT pg_advisory_unlock_all()`
      const sql = yield* SqlClient.SqlClient
      const options = {
        projectId,
        targetUrl: yield* makeDatabase(),
        sourceUrl: (yield* TestDatabase).url,
        report: () => Effect.void
      }
      const moving = yield* sql`UPDATE projects SET deleted_at = now() WHERE project_id = ${projectId}`.pipe(
        Effect.andThen(
          Effect.forkScoped(Effect.provideService(Effect.flip(move(options, [])), SqlClient.SqlClient, source))
        ),
        Effect.tap(untilBlocking(sql)),
        sql.withTransaction
      )
      assert.strictEqual((yield* Fiber.join(moving)).message, "Project deleting is being deleted")
      assert.deepStrictEqual(yield* sql`SELECT FROM pg_publication`, [])
    }).pipe(Effect.provideService(Operator, { actor: "tester" }), Effect.provide(box))
  )
})

/** A table with one value, which no key opens. */
const foreign: SealedTable = {
  kind: "webhook",
  page: () => Effect.succeed([{ projectId: "other", id: "ins", version: 1, sealed: new Uint8Array(64) }]),
  replace: () => Effect.succeed(0)
}
layer(TestDatabase.layer)("what a move needs", (it) => {
  it.effect("is checked before anything is made: every right that the roles lack is named", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const sides = sidesOf(yield* makeProject("checked"), sql)
      // The role and its session end with the transaction, which fails.
      const refused = Effect.gen(function* () {
        yield* sql`CREATE ROLE move_checked`
        yield* sql`GRANT SELECT ON ALL TABLES IN SCHEMA public TO move_checked`
        yield* sql`SET LOCAL ROLE move_checked`
        yield* check(sides, [], { state: null, peer: null, isDeleted: false })
      }).pipe(sql.withTransaction, Effect.flip, Effect.provide(box))
      assert.includeMembers((yield* refused).message.split("\n"), [
        "The role at the source needs REPLICATION: ALTER ROLE … REPLICATION",
        "The role at the source needs CREATE on the database: GRANT CREATE ON DATABASE …",
        "The role at the source has to own the tables: ALTER TABLE … OWNER TO …",
        "The role at the target needs pg_create_subscription (PostgreSQL 16), or has to be a superuser (15)",
        "The role at the target needs CREATE on the database: GRANT CREATE ON DATABASE …"
      ])
    })
  )

  it.effect("is a key that opens the secrets of both sides", () =>
    Effect.gen(function* () {
      const sides = sidesOf(yield* makeProject("keys"), yield* SqlClient.SqlClient)
      const refused = yield* Effect.flip(check(sides, [foreign], { state: null, peer: null, isDeleted: false }))
      assert.includeMembers(
        refused.message.split("\n"),
        ["source", "target"].map(
          (side) => `SECRET_KEY opens none of the 1 secrets at the ${side}: cells share SECRET_KEY`
        )
      )
    }).pipe(Effect.provide(box))
  )
})
