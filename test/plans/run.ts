/**
 * `npm run sql`: prints the SQL statements of the service, each as it is sent to PostgreSQL apart from empty lines, with its
 * declaration and the source lines that build it. With `--plans`, each is followed by its generic plan on a freshly migrated
 * database, and the last lines name what is wrong with the plans on tables in other states (`Plans.ts`). `--postgres=15` takes the
 * PostgreSQL of Debian's package `postgresql-15`.
 *
 * The service itself builds and sends the statements while `Walk.ts` uses it; a proxy before PostgreSQL distinguishes sent
 * statements from their parts. The last lines list every SQL template of the source that the walk has not reached.
 */
import { NodeRuntime } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { Console, Effect, Layer, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { readdirSync } from "node:fs"
import { join, resolve } from "node:path"
import { pageSettings } from "../../src/console/Page.ts"
import { pools } from "../../src/platform/Pools.ts"
import { migrate } from "../../src/sql/migrations/Migrations.ts"
import { startConsole } from "../console/Console.support.ts"
import { World } from "../contract/Samples.ts"
import { startInstalled, startPostgres } from "../support/Postgres.ts"
import { TestServer } from "../support/TestServer.ts"
import { startWireProxy } from "../support/WireProxy.ts"
import { operate } from "./Operate.ts"
import { type Built, built, declarationAt, nameOf, placesOf, reached, templatesIn } from "./Recorded.ts"
import { explain, plan, prepare, readIndexes, session, states } from "./Plans.ts"
import { walk } from "./Walk.ts"

const withPlans = process.argv.includes("--plans")

/** The version of PostgreSQL; undefined: that of the embedded server. */
const version = /^--postgres=(\d+)$/m.exec(process.argv.join("\n"))?.[1]

const on = (url: string) => Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 }))

/** Creates a database and prepares it by an effect; returns its URL. */
const makeDatabase = Effect.fnUntraced(function* <E>(
  cluster: string,
  name: string,
  prepare: Effect.Effect<unknown, E, PgClient.PgClient | SqlClient.SqlClient>
) {
  yield* Effect.flatMap(PgClient.PgClient, (sql) => sql`CREATE DATABASE ${sql(name)}`).pipe(on(cluster))
  const url = new URL(cluster)
  url.pathname = `/${name}`
  yield* prepare.pipe(on(url.href))
  return url.href
})

/** Leaves an index whose creation was interrupted: the migrations, which the service applies when it starts, drop it. */
const leaveInvalidIndex = Effect.gen(function* () {
  const sql = yield* PgClient.PgClient
  yield* sql`CREATE TABLE unfinished (id int)`
  yield* sql`CREATE INDEX unfinished_id ON unfinished (id)`
  yield* sql`UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'unfinished_id'::regclass`
})

/** Returns the texts of all statements that the service sends while it is used. */
const sentTexts = Effect.fnUntraced(function* (databaseUrl: string) {
  const wire = yield* startWireProxy(databaseUrl)
  yield* Effect.gen(function* () {
    const server = yield* startConsole({
      DATABASE_URL: wire.url,
      WEBHOOK_RETRY_SCHEDULE: "100ms",
      WEBHOOK_DISABLE_AFTER: "1s"
    })
    const world = World.layerNoDeps.pipe(Layer.provideMerge(Layer.succeed(TestServer, server)))
    yield* Effect.andThen(walk, operate(server)).pipe(Effect.provide(world))
  }).pipe(Effect.scoped)
  return new Set(wire.take().flatMap(({ statements }) => statements))
})

/** Folders without a domain: their templates are parts of the statements of others. */
const foundation = /^src\/(commands|http|operating|outbox|platform|secrets|sql|telemetry|work)\//

/** Returns the name of a statement: its outermost template outside of the foundation. */
const titleOf = ({ template }: Built): string => {
  const place = placesOf(template).find(({ file }) => !foundation.test(file)) ?? template.place
  return `${place.file} ${declarationAt(place)}`
}

interface Statement {
  readonly text: string
  readonly made: Built
  readonly title: string
}

const isPlanned = ({ text }: Statement) => /^\s*(WITH|SELECT|INSERT|UPDATE|DELETE)/.test(text)

/** What uses the pool for reports with the settings of its sessions. Pages of the console have settings of their own. */
const reports = /^src\/(imports\/Preview\.ts|campaigns\/)/

/** Returns the settings of the session of a statement. */
const settingsOf = ({ made: { pool }, title }: Statement): Readonly<Record<string, string>> =>
  pool.applicationName === pools.reports.name && !reports.test(title) ? pageSettings : (pool.startupParameters ?? {})

/** Prints what is wrong with the plans of the statements, in each state of the tables. */
const showFaults = Effect.fnUntraced(function* (cluster: string, statements: ReadonlyArray<Statement>) {
  for (const state of states) {
    const name = state.name.replaceAll(" ", "_")
    yield* Effect.flatMap(PgClient.PgClient, (sql) => sql`CREATE DATABASE ${sql(name)} TEMPLATE walked`).pipe(
      on(cluster)
    )
    const url = new URL(cluster)
    url.pathname = `/${name}`
    yield* prepare(state).pipe(on(url.href))
    const indexes = yield* readIndexes.pipe(on(url.href))
    const sessions = Map.groupBy(statements.filter(isPlanned), (statement) => JSON.stringify(settingsOf(statement)))
    for (const members of sessions.values()) {
      const faults = yield* Effect.forEach(members, ({ text, title }) =>
        Effect.map(plan(text, indexes, state), (faults) => faults.map((fault) => `${title}: ${fault}`))
      ).pipe(Effect.provide(session(url.href, members[0] === undefined ? {} : settingsOf(members[0]))))
      for (const fault of new Set(faults.flat())) yield* Console.log(`-- wrong plan (${state.name}): ${fault}`)
    }
  }
})

const unreached = () =>
  readdirSync(resolve(import.meta.dirname, "../../src"), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts"))
    .flatMap((file) => templatesIn(join("src", file)))
    .filter((place) => !reached.has(nameOf(place)))

const program = Effect.gen(function* () {
  const postgres = yield* Effect.acquireRelease(
    Effect.promise(() => (version === undefined ? startPostgres() : startInstalled(Number(version)))),
    ({ stop }) => Effect.promise(stop)
  )
  const sent = yield* Effect.flatMap(makeDatabase(postgres.url, "walked", leaveInvalidIndex), sentTexts)
  const empty = withPlans ? yield* makeDatabase(postgres.url, "planned", migrate) : ""

  const statements = [...built]
    .filter(([text]) => sent.has(text))
    .map(([text, made]) => ({ text, made, title: titleOf(made) }))
    .toSorted((one, other) => (one.title < other.title ? -1 : 1))
  for (const { made, text, title } of statements) {
    yield* Console.log(`-- ${title}`)
    yield* Console.log(`-- pool: ${made.pool.applicationName ?? ""}`)
    yield* Console.log(`-- source: ${[...new Set(placesOf(made.template).map(nameOf))].join(" ")}`)
    yield* Console.log(`${text.trim().replaceAll(/\n\s*\n/g, "\n")};\n`)
    if (withPlans && isPlanned({ text, made, title })) {
      const rows = yield* explain(text).pipe(Effect.provide(session(empty, made.pool.startupParameters ?? {})))
      for (const row of rows) yield* Console.log(`--   ${Object.values(row).join()}`)
    }
  }
  if (withPlans) yield* showFaults(postgres.url, statements)
  yield* Console.log(`-- ${statements.length} statements`)
  for (const place of unreached())
    yield* Console.log(`-- not sent by the walk: ${nameOf(place)} ${declarationAt(place)}`)
})

NodeRuntime.runMain(Effect.scoped(program))
