/** Databases for tests: clones of the migrated template, dropped when their scope closes. */
import { PgClient } from "@effect/sql-pg"
import { Clock, Context, Effect, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import { inject } from "vitest"
import { makeMutationClient, Mutations } from "../../src/commands/Mutations.ts"
import { template } from "./globalSetup.ts"

const urlOf = (database: string) => {
  const url = new URL(inject("postgresUrl"))
  url.pathname = `/${database}`
  return Redacted.make(url.href)
}

const administrator = Layer.suspend(() => PgClient.layer({ url: urlOf("postgres"), maxConnections: 1 }))

/** Creates a database with every migration applied, or an `empty` one, which may have an ICU locale for a `language`. */
export const makeDatabase = (options?: { readonly empty?: boolean; readonly language?: string }) =>
  Effect.acquireRelease(
    Effect.gen(function* () {
      const sql = yield* PgClient.PgClient
      const name = `test_${randomBytes(6).toString("hex")}`
      yield* sql`
        CREATE DATABASE ${sql(name)} STRATEGY FILE_COPY TEMPLATE ${sql(options?.empty === true ? "template0" : template)}
        ${sql.literal(options?.language === undefined ? "" : `LOCALE_PROVIDER icu ICU_LOCALE '${options.language}'`)}`
      return name
    }).pipe(Effect.provide(administrator)),
    (name) =>
      Effect.gen(function* () {
        const sql = yield* PgClient.PgClient
        yield* sql`DROP DATABASE ${sql(name)} WITH (FORCE)`
      }).pipe(Effect.provide(administrator), Effect.orDie)
  ).pipe(Effect.map(urlOf))

/** Gives an effect the system's clock in place of a `TestClock`: connections do not end because the days of a test pass. */
const byTheSystemsClock = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Clock.Clock, (clock) => ("withLive" in clock ? TestClock.withLive(effect) : effect))

export class TestDatabase extends Context.Service<TestDatabase, { readonly url: Redacted.Redacted }>()(
  "developer-api-service/test/support/TestDatabase"
) {
  /** A database, with clients like the service's for statements and for mutations. */
  static readonly layer = Layer.effectContext(
    byTheSystemsClock(
      Layer.build(
        Layer.effect(
          Mutations,
          Effect.map(PgClient.PgClient, (sql) => makeMutationClient({ sql, reads: sql, permits: 40 }))
        ).pipe(
          Layer.provideMerge(
            Layer.unwrap(
              Effect.map(TestDatabase, ({ url }) => PgClient.layer({ url, maxConnections: 10, multiplex: true }))
            )
          ),
          Layer.provideMerge(
            Layer.effect(
              TestDatabase,
              Effect.map(makeDatabase(), (url) => ({ url }))
            )
          )
        )
      )
    )
  )
}
