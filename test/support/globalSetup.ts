/** One PostgreSQL for the whole run, with a migrated template that each test file clones. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import type { TestProject } from "vitest/node"
import { migrate } from "../../src/sql/migrations/Migrations.ts"
import { startPostgres } from "./Postgres.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** A superuser's URL of the cluster, with the database `postgres`. */
    readonly postgresUrl: string
  }
}

export const template = "template_developer_api"

export default async (project: TestProject) => {
  const postgres = await startPostgres()
  const at = (database: string) => {
    const url = new URL(postgres.url)
    url.pathname = `/${database}`
    return url.href
  }
  const client = (database: string) => PgClient.layer({ url: Redacted.make(at(database)), maxConnections: 2 })
  await Effect.gen(function* () {
    const sql = yield* PgClient.PgClient
    yield* sql`CREATE DATABASE ${sql(template)}`
    // Tests open thousands of connections: a password that is quick to check saves both sides a millisecond for each.
    const { password, username } = new URL(postgres.url)
    yield* sql.withTransaction(
      Effect.andThen(
        sql`SET LOCAL scram_iterations = 1`,
        sql`ALTER ROLE ${sql(username)} PASSWORD ${sql.literal(`'${password}'`)}`
      )
    )
  }).pipe(Effect.provide(client("postgres")), Effect.runPromise)
  await migrate.pipe(Effect.provide(client(template)), Effect.runPromise)
  project.provide("postgresUrl", at("postgres"))
  return postgres.stop
}
