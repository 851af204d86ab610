/** A temporary PostgreSQL for the whole test run: fast, because it does not have to survive a crash. */
import { Effect, ManagedRuntime, Redacted } from "effect"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import * as Os from "node:os"
import * as Path from "node:path"
import { EmbeddedPostgres } from "../../src/platform/database/EmbeddedPostgres.ts"
import * as Server from "../../src/platform/database/EmbeddedPostgres/Server.ts"

const flags = {
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  max_connections: "400",
  shared_buffers: "64MB"
}

/** Starts a server below the system's temporary directory. `url` is a superuser's; `stop` removes everything. */
export const startPostgres = async (): Promise<{ readonly url: string; readonly stop: () => Promise<void> }> => {
  const directory = await mkdtemp(Path.join(Os.tmpdir(), "developer-api-test-"))
  const runtime = ManagedRuntime.make(EmbeddedPostgres.layer({ directory, flags }))
  const stop = async () => {
    await runtime.dispose()
    // The layer leaves the server running for other connected users; here these are leaks of tests, and it is stopped.
    const lock = await readFile(Path.join(directory, "postgres", "postmaster.pid"), "utf8").catch(() => undefined)
    if (lock !== undefined) await Effect.runPromise(Server.stop(Number.parseInt(lock, 10)))
    await rm(directory, { recursive: true, force: true })
  }
  try {
    const { url } = await runtime.runPromise(EmbeddedPostgres)
    return { url: Redacted.value(url), stop }
  } catch (cause) {
    await stop()
    throw cause
  }
}
