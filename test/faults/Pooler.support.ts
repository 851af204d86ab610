/** A PgBouncer of the test's own, in transaction mode, in front of the PostgreSQL of a database. */
import { chmod, writeFile } from "node:fs/promises"
import * as Path from "node:path"
import { freePort, type Running, spawn, temporaryDirectory } from "../support/Process.ts"
import { pathOf } from "../support/Programs.ts"
import { eventually } from "../support/Waiting.ts"
import { session } from "./Projects.support.ts"

export interface Pooler {
  /** The database through the pooler. */
  readonly url: string
  readonly kill: () => Promise<void>
  /** Starts it again after `kill`, and waits until it answers. */
  readonly start: () => Promise<void>
}

/** Starts it with as many sessions of PostgreSQL as `sessions`. */
export const startPooler = async (databaseUrl: string, sessions: number): Promise<Pooler> => {
  const directory = await temporaryDirectory()
  const port = await freePort()
  const { hostname, password, port: target, username } = new URL(databaseUrl)
  const file = Path.join(directory, "pgbouncer.ini")
  await writeFile(
    file,
    `[databases]
* = host=${hostname} port=${target} user=${username} password=${decodeURIComponent(password)}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = ${sessions}
max_client_conn = 200
`
  )
  await Promise.all([chmod(directory, 0o755), chmod(file, 0o644)])
  // It refuses to run as root.
  const user = process.getuid?.() === 0 ? ["-u", "nobody"] : []
  const url = new URL(databaseUrl)
  url.port = String(port)
  let running: Running | undefined
  const start = async () => {
    running = spawn(pathOf("pgbouncer"), [...user, file])
    await eventually(() => session(url.href))
  }
  await start()
  return {
    url: url.href,
    start,
    kill: async () => {
      running?.kill("SIGKILL")
      await running?.exited
    }
  }
}
