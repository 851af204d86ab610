/** Workers, and the leases of dead ones, on PostgreSQL. */
import { assert, layer } from "../support/Vitest.ts"
import { PgClient } from "@effect/sql-pg"
import { ConfigProvider, Context, Effect, Layer, Logger, Redacted, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { Supervisor } from "../../src/work/Supervisor.ts"
import { listWorkers, Worker } from "../../src/work/Worker.ts"
import { DatabaseUrl } from "../../src/sql/Connections.ts"
import { Settings } from "../../src/platform/Settings.ts"
import { makeDatabase, TestDatabase } from "../support/TestDatabase.ts"
import { secretKey } from "../support/TestServer.ts"
import { untilRows } from "../support/Waiting.ts"
import { hostname } from "node:os"
import manifest from "../../package.json" with { type: "json" }

const quiet = Logger.layer([])

/** Starts another worker, like that of another process; it ends with the scope. */
const worker = Effect.gen(function* () {
  const { url } = yield* TestDatabase
  const layer = Worker.layer("worker").pipe(
    Layer.provideMerge(Supervisor.layer),
    Layer.provide(Layer.succeed(DatabaseUrl, url)),
    Layer.provide(quiet)
  )
  const context = yield* Layer.buildWithMemoMap(layer, yield* Layer.makeMemoMap, yield* Effect.scope)
  return yield* Effect.provideContext(Worker, context)
})

const silent = (0x5d61n << 47n) | ((1n << 47n) - 1n)

/**
 * A database of its own, in which a session holds the lock of a worker, and then does nothing more: from the beginning of the
 * file, as it counts as hung only after seconds.
 */
class Hung extends Context.Service<Hung, SqlClient.SqlClient>()("developer-api-service/test/work/Worker.test/Hung") {
  static readonly layer = Layer.effect(
    Hung,
    Effect.gen(function* () {
      const client = PgClient.layer({ url: yield* makeDatabase(), maxConnections: 2 })
      const sql = Context.get(yield* Layer.build(client), SqlClient.SqlClient)
      const connection = yield* sql.reserve
      const lock = "SELECT pg_advisory_lock_shared(($1::bigint >> 32)::int, -1)"
      yield* connection.execute(lock, [String(silent)], undefined)
      return sql
    })
  )
}

const considersDead = (self: Worker["Service"], id: bigint | null) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* Effect.orDie(sql<{ readonly dead: boolean }>`
      SELECT coalesce(${self.isDead(sql, sql`lease.worker_id`)}, false) AS dead
      FROM (VALUES (${id === null ? null : String(id)}::bigint)) AS lease (worker_id)`)
    return row?.dead
  })

/** Reads the backends that hold the lock of a worker. */
const backends = Effect.fnUntraced(function* ({ id }: Worker["Service"]) {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.orDie(sql<{ readonly pid: number }>`
    SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted
      AND (classid::bigint << 32) | objid::bigint = ${String(id)}::bigint`)
})

/** Waits for a heartbeat of this worker that began after this call. It is all that the worker's session does. */
const looksAround = Effect.fnUntraced(function* (observer: Worker["Service"]) {
  const sql = yield* SqlClient.SqlClient
  const [session] = yield* backends(observer)
  const [start] = yield* Effect.orDie(sql<{ readonly at: string }>`SELECT clock_timestamp()::text AS at`)
  yield* untilRows(
    Effect.orDie(sql`
      SELECT 1 FROM pg_stat_activity WHERE pid = ${session?.pid}::int AND state = 'idle'
        AND query_start > ${start?.at}::timestamptz`),
    (rows) => rows.length === 1
  )
})

const services = Layer.merge(TestDatabase.layer, Hung.layer)

layer(services, { excludeTestServices: true, timeout: "60 seconds" })("a worker", (it) => {
  it.effect("is alive to others while it runs, and dead within three seconds of its end", function* () {
    const sql = yield* SqlClient.SqlClient
    const self = yield* worker
    assert.strictEqual(self.leaseId(), self.id)
    // No worker is considered dead before all had the time to take their locks.
    const nobody = 42n
    assert.isFalse(yield* considersDead(self, nobody))
    yield* untilRows(considersDead(self, nobody), (dead) => dead === true)
    const untilDead = Effect.gen(function* () {
      const scope = yield* Scope.make()
      const other = yield* Scope.provide(worker, scope)
      assert.notStrictEqual(other.id, self.id)
      assert.isFalse(yield* considersDead(self, other.id))
      assert.isFalse(yield* considersDead(self, self.id))
      assert.isFalse(yield* considersDead(self, null))
      // The session ends as it does when the process is killed.
      const [row] = yield* backends(other)
      yield* Effect.forkChild(Scope.close(scope, yield* Effect.exit(Effect.void)))
      const killedAt = performance.now()
      yield* Effect.orDie(sql`SELECT pg_terminate_backend(${row?.pid}::int)`)
      yield* untilRows(considersDead(self, other.id), (dead) => dead === true)
      const took = performance.now() - killedAt
      assert.isFalse(yield* considersDead(self, self.id))
      return took
    })
    // One of three, as a busy machine delays any of them.
    const took = yield* Effect.repeat(untilDead, { times: 2, until: (millis) => millis < 3_000 })
    assert.isBelow(took, 3_000)
  })

  it.effect("is listed with its role, version, host and last sign", function* () {
    const sql = yield* SqlClient.SqlClient
    const listed = (id: bigint) =>
      Effect.map(Effect.orDie(listWorkers(sql)), (live) => live.filter((worker) => worker.id === id.toString(16)))
    const scope = yield* Scope.make()
    const { id } = yield* Scope.provide(worker, scope)
    const [first] = yield* listed(id)
    assert.containsSubset(first, { role: "worker", version: manifest.version, isHung: false })
    assert.isTrue(hostname().startsWith(first?.host ?? assert.fail()))
    // A role that may not see the session of another role does not know its sign. It is no fresh one.
    yield* Effect.orDie(sql`CREATE ROLE other_role`)
    const [unseen] = yield* Effect.orDie(
      sql.withTransaction(Effect.andThen(sql`SET LOCAL ROLE other_role`, listWorkers(sql)))
    )
    assert.containsSubset(unseen, { version: manifest.version, silentSeconds: null, isHung: false })
    yield* Effect.orDie(sql`DROP ROLE other_role`)
    // Its sign is renewed without its doing anything.
    yield* untilRows(listed(id), ([now]) => (now?.silentSeconds ?? 1) < 0.4)
    yield* Scope.close(scope, yield* Effect.exit(Effect.void))
    yield* untilRows(listed(id), (rows) => rows.length === 0)
  })

  it.effect("is the first if it has the lowest id of those that are alive", function* () {
    const self = yield* worker
    const others = yield* Scope.make()
    const other = yield* Scope.provide(worker, others)
    const lower = self.id < other.id ? self : other
    yield* untilRows(
      Effect.sync(() => [self, other].filter(({ isFirst }) => isFirst())),
      (first) => first.length === 1 && first[0] === lower
    )
    yield* untilRows(Effect.sync(self.isOnly), (isOnly) => !isOnly)
    yield* Scope.close(others, yield* Effect.exit(Effect.void))
    yield* untilRows(Effect.sync(self.isOnly), (isOnly) => isOnly)
    // A lock with two keys that another program holds is not the lock of a worker.
    const sql = yield* SqlClient.SqlClient
    const connection = yield* Effect.orDie(sql.reserve)
    yield* Effect.orDie(connection.execute("SELECT pg_advisory_lock(0, 1)", [], undefined))
    yield* looksAround(self)
    yield* looksAround(self)
    assert.deepStrictEqual([self.isFirst(), self.isOnly()], [true, true])
  })

  it.effect("takes its lock again when its connection breaks without being considered dead", function* () {
    const sql = yield* SqlClient.SqlClient
    const self = yield* worker
    const observer = yield* worker
    yield* untilRows(considersDead(observer, 42n), (dead) => dead === true)
    const reconnect = Effect.gen(function* () {
      // An observer that missed the lock of the attempt before would be right to consider this worker dead.
      yield* looksAround(observer)
      const [before] = yield* backends(self)
      const brokenAt = performance.now()
      yield* Effect.orDie(sql`SELECT pg_terminate_backend(${before?.pid}::int)`)
      const verdicts: Array<boolean | undefined> = []
      yield* untilRows(
        Effect.gen(function* () {
          verdicts.push(yield* considersDead(observer, self.id))
          return yield* backends(self)
        }),
        (rows) => rows.length === 1 && rows[0]?.pid !== before?.pid
      )
      const took = performance.now() - brokenAt
      yield* untilRows(Effect.sync(self.leaseId), (id) => id === self.id)
      return { took, verdicts }
    })
    // A worker has some 0.8 s to come back. A busy machine may take longer, and then the worker may count as dead.
    const { verdicts } = yield* Effect.repeat(reconnect, { times: 9, until: ({ took }) => took < 800 })
    assert.notInclude(verdicts, true)
  })

  it.effect("leases nothing and declares no worker dead while it does not hold its lock", function* () {
    const sql = yield* SqlClient.SqlClient
    const self = yield* worker
    yield* untilRows(considersDead(self, 42n), (dead) => dead === true)
    const database = Effect.map(
      Effect.orDie(sql<{ readonly name: string }>`SELECT current_database() AS name`),
      ([row]) => row?.name ?? ""
    )
    const name = sql(yield* database)
    // New sessions are refused, so the lock stays lost.
    yield* Effect.orDie(sql`ALTER DATABASE ${name} CONNECTION LIMIT 0`)
    const [row] = yield* backends(self)
    yield* Effect.orDie(sql`SELECT pg_terminate_backend(${row?.pid}::int)`)
    yield* untilRows(Effect.sync(self.leaseId), (id) => id === null)
    assert.isFalse(yield* considersDead(self, 42n))
    yield* Effect.orDie(sql`ALTER DATABASE ${name} CONNECTION LIMIT -1`)
    yield* untilRows(Effect.sync(self.leaseId), (id) => id === self.id)
  })

  it.effect("leases nothing while it claims from another database than the one that has its lock", function* () {
    const { url } = yield* TestDatabase
    const urls = {
      DATABASE_URL: Redacted.value(yield* makeDatabase()),
      DATABASE_DIRECT_URL: Redacted.value(url)
    }
    const environment = { ...urls, SECRET_KEY: secretKey, REDIS_URL: "redis://127.0.0.1:1" }
    const layer = Worker.layer("worker").pipe(
      Layer.provideMerge(Supervisor.layer),
      Layer.provide(DatabaseUrl.layer("service")),
      Layer.provide(Settings.layer),
      Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))),
      Layer.provide(quiet)
    )
    const self = yield* Effect.provideContext(
      Worker,
      yield* Layer.buildWithMemoMap(layer, yield* Layer.makeMemoMap, yield* Effect.scope)
    )
    // It has its lock, and takes it again and again.
    yield* untilRows(backends(self), (rows) => rows.length > 0)
    assert.isNull(self.leaseId())
    assert.isFalse(yield* considersDead(self, 42n))
  })

  it.effect("has a lock that conflicts with no lock of a project", function* () {
    const sql = yield* SqlClient.SqlClient
    const self = yield* worker
    const [row] = yield* Effect.orDie(sql<{ readonly taken: boolean }>`
      SELECT pg_try_advisory_xact_lock(${String(self.id)}::bigint) AS taken`)
    assert.isTrue(row?.taken)
  })

  it.effect("that has its lock hangs when it has given no sign for 15 seconds", function* () {
    const sql = yield* Hung
    yield* untilRows(Effect.orDie(listWorkers(sql)), ([worker]) => worker?.isHung === true)
    const [worker] = yield* Effect.orDie(listWorkers(sql))
    assert.strictEqual(worker?.id, silent.toString(16))
    assert.isAtLeast(worker?.silentSeconds ?? 0, 15)
  })
})
