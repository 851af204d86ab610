/** Databases with a project, and the environment of a service on them. */
import { PgClient, PgConnection } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import type { ProjectFile } from "../../src/project/ProjectFile.ts"
import type { Role } from "../../src/service/Serve.ts"
import { assert } from "@effect/vitest"
import { opened } from "../support/Finalizers.ts"
import { openProject } from "../support/Projects.ts"
import { makeDatabase } from "../support/TestDatabase.ts"
import { type Environment, startServer } from "../support/TestServer.ts"
import { eventually } from "../support/Waiting.ts"

type File = (typeof ProjectFile)["Encoded"]

/** Creates a migrated database for one test and returns its URL. */
export const database = (): Promise<string> => opened(Effect.map(makeDatabase(), Redacted.value))

/** Returns the settings of a service on a database. */
export const serviceEnv = (databaseUrl: string) => ({
  DATABASE_URL: databaseUrl,
  SECRET_KEY: Buffer.alloc(32, 7).toString("base64")
})

/**
 * A service that no test kills: it runs in the process of the tests, where a start costs a tenth of that of a process. It
 * ends with the test, or with the file if no test runs yet.
 */
export const startHere = (
  databaseUrl: string,
  env: Environment = {},
  role: Role = "api"
): Promise<{ readonly url: string }> => opened(startServer({ ...serviceEnv(databaseUrl), ...env }, role))

const plenty = { limit: 1_000_000, windowSeconds: 1 }

/** Rate limits that no test reaches. */
export const unlimited = { read: plenty, write: plenty, messages: plenty }

/** Applies a project and returns a token for it with every scope. */
export const project = (
  databaseUrl: string,
  file: Omit<File, "project"> & { readonly project?: Partial<File["project"]> } = {}
): Promise<string> => {
  const id = file.project?.id ?? `p-${randomBytes(6).toString("hex")}`
  return openProject(
    { ...file, project: { name: "Acme", ...file.project, id } },
    serviceEnv(databaseUrl).SECRET_KEY
  ).pipe(Effect.provide(PgClient.layer({ url: Redacted.make(databaseUrl), maxConnections: 1 })), Effect.runPromise)
}

/** Waits until the database has finished the statements of killed processes, given the name of their connections. */
export const untilSessionsEnd = (query: (text: string) => Promise<ReadonlyArray<unknown>>, name: string) =>
  eventually(async () => {
    const sessions = await query(`
      SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE '${name}'`)
    assert.deepStrictEqual(sessions, [])
  })

/** Opens a session for SQL text. */
export const session = async (databaseUrl: string) => {
  const connection = await opened(PgConnection.make({ url: Redacted.make(databaseUrl) }))
  return (text: string) => Effect.runPromise(connection.query(text)).then(({ rows }) => rows)
}
