/** One data directory used by several processes: this one, others (`service`), and killed ones. */
import { assert, describe, it } from "../../support/Vitest.ts"
import { Effect, Schedule } from "effect"
import * as Fs from "node:fs"
import * as Path from "node:path"
import { isRunning, untilEnded } from "../../../src/platform/database/EmbeddedPostgres/Processes.ts"
import {
  connect,
  isStopped,
  lockOf,
  query,
  service,
  temporaryDirectory,
  unrelatedProcess,
  using
} from "./EmbeddedPostgres.support.ts"
import { until } from "../../support/Waiting.ts"

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
