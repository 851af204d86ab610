/** Requests while the disk of the embedded database is full, and after space is freed (contract §5, §15). */
import { open, readFile, rm } from "node:fs/promises"
import * as Path from "node:path"
import { randomBytes } from "node:crypto"
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { beforeEach, describe, it } from "vitest"
import { Effect } from "effect"
import { spawnSync } from "node:child_process"
import * as Server from "../../src/sql/embedded/Server.ts"
import { run } from "../cli/Cli.support.ts"
import { pipelines } from "../contract/Deals.support.ts"
import { defer } from "../support/Finalizers.ts"
import { ended, inGoodOrder, postmasterOf, spawn, temporaryDirectory } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { project, serviceEnv, session, unlimited } from "./Projects.support.ts"
import { command, expectProblem, kindOf, listClients, send, stream } from "./Requests.support.ts"

/** Returns a command that runs a program in its own mount namespace; without root this needs a user namespace. */
const inNamespace = (command: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...(process.getuid?.() === 0 ? [] : ["--user", "--map-current-user", "--keep-caps"]),
  "--mount",
  ...command
]

const mounting = (directory: string, mebibytes: number, command: ReadonlyArray<string>) =>
  inNamespace([
    "sh",
    "-c",
    `mount -t tmpfs -o size=${mebibytes}m,mode=755 tmpfs "$0" && exec "$@"`,
    directory,
    ...command
  ])

/** Skips the tests of the current suite where mounting a file system is not permitted. */
const requiresMount = (): void => {
  beforeEach(({ skip }) => {
    const { status } = spawnSync("unshare", mounting("/tmp", 1, ["true"]), { stdio: "ignore" })
    if (status !== 0) {
      skip("no file system may be mounted here; run the tests as root, or permit unprivileged user namespaces")
    }
  })
}

/** Starts a service whose data directory is a file system of some MiB in memory, which only it and its PostgreSQL see. */
const startOnSmallDisk = async (mebibytes: number, env: Readonly<Record<string, string>>) => {
  const mountPoint = await temporaryDirectory()
  const service = spawn("unshare", mounting(mountPoint, mebibytes, [process.execPath, "src/main.ts"]), {
    PORT: "0",
    DATA_DIR: mountPoint,
    ...env
  })
  const directory = `/proc/${service.pid}/root${mountPoint}`
  // A killed service leaves PostgreSQL running, but then `directory` is no longer visible.
  let postmaster: number | undefined
  const findPostmaster = () => void (postmaster = postmasterOf(directory) ?? postmaster)
  defer(async () => {
    findPostmaster()
    service.kill("SIGKILL")
    await service.exited
    if (postmaster !== undefined) await Effect.runPromise(Server.stop(postmaster))
  })
  const filler = Path.join(directory, "filler")
  return {
    service,
    /** As seen by processes outside of the namespace. */
    directory,
    /** Writes a file until not one more byte fits. */
    fill: async () => {
      const file = await open(filler, "a")
      try {
        // The last bytes of a file system are written in small pieces.
        for (const piece of [Buffer.alloc(1 << 20, 1), Buffer.alloc(1 << 12, 1)]) {
          while ((await file.write(piece)).bytesWritten === piece.length);
        }
      } catch (error) {
        if (!(error instanceof Error && "code" in error && error.code === "ENOSPC")) throw error
      } finally {
        await file.close()
      }
    },
    free: () => rm(filler),
    shutDown: () => {
      findPostmaster()
      service.kill("SIGTERM")
    }
  }
}

/** Returns the URL of the embedded database in a data directory. */
const urlBelow = async (directory: string) => {
  const password = (await readFile(Path.join(directory, "postgres-password"), "utf8")).trim()
  const lock = await readFile(Path.join(directory, "postgres", "postmaster.pid"), "utf8")
  return `postgres://postgres:${password}@127.0.0.1:${lock.split("\n")[3]}/developer_api`
}

/** Statements that need space: for tables, where the statement fails, or for the log, where PostgreSQL stops. */
const needs = { tables: "SELECT", "write-ahead log": "SELECT pg_switch_wal() IS NULL" }

describe.for(Object.entries(needs))(
  "a service whose disk is full, so that its database has no room for its %s",
  ([, need]) => {
    requiresMount()

    it("answers 503, loses and repeats no note, and recovers by itself once there is space", async () => {
      const { SECRET_KEY } = serviceEnv("")
      const disk = await startOnSmallDisk(192, { SECRET_KEY })
      const [, url = ""] = await disk.service.prints(/^listening on (http:\/\/\S+)$/m)
      const databaseUrl = await urlBelow(disk.directory)
      const token = await project(databaseUrl, {
        project: { rateLimits: unlimited, defaultPipelineId: "sales" },
        pipelines,
        deals: [{ id: "deal", title: "Deal" }]
      })
      const notes = `${url}/api/v1/developer/crm/deals/deal/notes`
      // Incompressible text, so that it soon needs more disk.
      const bodies = new Map<number, string>()
      const write = (n: number) => {
        const body = bodies.get(n) ?? `${n} ${randomBytes(7_000).toString("base64")}`
        bodies.set(n, body)
        return command(notes, token, `note-${n}`, { json: { body } })
      }
      const asked: Array<{ readonly n: number; readonly status: number }> = []
      const writes = stream(4, async (n) => {
        const answer = await write(n)
        asked.push({ n, status: answer.status })
        if (answer.status !== 201) await sleep(50)
        return answer
      })
      const reads = stream(2, async () => {
        const answer = await listClients(url, token)
        await sleep(20)
        return answer
      })
      await eventually(() => assert.isAbove(asked.filter(({ status }) => status === 201).length, 50))

      const sql = await session(databaseUrl)
      await disk.fill()
      // PostgreSQL may have stopped for want of space before the statement, or while it runs.
      await sql(need).catch(() => undefined)
      await eventually(() => assert.isAbove(asked.filter(({ status }) => status === 503).length, 50))
      await sleep(2_000)
      await eventually(async () => {
        // A crash may have freed some space.
        await disk.fill()
        const refused = await write(asked.length + 100_000)
        expectProblem(refused, 503, "service_unavailable")
        assert.match(String(refused.headers["retry-after"]), /^[1-9][0-9]*$/)
        assert.isBelow(refused.millis, 5_000)
      })
      assert.strictEqual((await send(`${url}/healthz`)).status, 200)
      const { stdout } = await Effect.runPromise(run(["doctor"], { env: { DATABASE_URL: databaseUrl, SECRET_KEY } }))
      assert.match(stdout, /failed   database .*(No space left on device|recovery|ECONNREFUSED|starting up)/)
      console.log(`while the disk is full: writes ${writes.kinds().join(", ")}; reads ${reads.kinds().join(", ")}`)

      const freed = performance.now()
      await disk.free()
      await eventually(async () => assert.strictEqual((await write(asked.length + 200_000)).status, 201))
      await eventually(async () => assert.strictEqual((await send(`${url}/readyz`)).status, 200))
      console.log(`accepts notes ${Math.round(performance.now() - freed)} ms after there is space`)
      await Promise.all([writes.stop(), reads.stop()])
      assert.deepStrictEqual([writes.failures, reads.failures], [[], []])
      assert.deepStrictEqual(writes.kinds(), ["201", "503 service_unavailable"])
      assert.includeMembers(["200", "503 service_unavailable"], reads.kinds())

      // Each note exists once: acknowledged notes already do, the others do after the same request.
      const acknowledged = asked.filter(({ status }) => status === 201).map(({ n }) => n)
      const again = await session(databaseUrl)
      const stored = async () =>
        (await again("SELECT body FROM notes WHERE deal_id = 'deal'")).map(({ body }) => String(body))
      assert.includeMembers(
        await stored(),
        acknowledged.map((n) => String(bodies.get(n)))
      )
      for (const n of bodies.keys()) assert.strictEqual(kindOf(await write(n)), "201")
      assert.deepStrictEqual((await stored()).toSorted(), [...bodies.values()].toSorted())
      assert.isFalse(disk.service.hasExited())
      disk.shutDown()
      assert.deepStrictEqual(await ended(disk.service), inGoodOrder)
    })
  }
)
