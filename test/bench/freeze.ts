/** `bench freeze`: duration of a freeze of an audience, from request to answer. */
import type { PgClient } from "@effect/sql-pg"
import { Clock, Duration, Effect, Layer, Option, Redacted } from "effect"
import { Command } from "effect/cli"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { json } from "../../src/cli/Flags.ts"
import { answer, table } from "../../src/cli/Output.ts"
import { ApiKeys } from "../../src/platform/requests/auth/ApiKeys.ts"
import { fixed, median, ranged, round, spread } from "./Figures.ts"
import { count, type Findings, progress } from "./Options.ts"
import { BenchFailed, connect, database, type Running, service, start } from "./Stage.ts"

const sizes = [1_000, 10_000, 100_000]

export interface Options {
  readonly rounds: number
}

export const usual: Options = { rounds: 5 }

/** Distribution of shared addresses among the clients of a project. */
const distributions = {
  /** Every fifth client shares an address with the previous one. */
  usual: "CASE WHEN n % 5 = 0 THEN n - 1 ELSE n END",
  /** Each client shares one address with the previous client and one with the next, so every second one is eligible. */
  chain: "n / 2",
  /** All clients share one address. */
  one: "0"
}
const distributionNames = ["usual", "chain", "one"] as const
type Distribution = (typeof distributionNames)[number]

/** Creates a project with `size` clients. Its tables have no statistics yet, as after a new project file. */
const populate = Effect.fnUntraced(function* (
  sql: PgClient.PgClient,
  id: string,
  size: number,
  distribution: Distribution
) {
  yield* sql`
    INSERT INTO projects (project_id, name, time_zone, modules, entitlements, rate_limits, created_at)
    VALUES (${id}, 'Freeze', 'UTC', '{campaigns}', '{developer_api}',
      '{"write": {"limit": 1000000, "windowSeconds": 1}}', now())`
  yield* sql`
    INSERT INTO channels (project_id, id, source_id, provider_type, display_name, status, config, connected_at)
    SELECT ${id}, name, name, 'sandbox', name, 'active', '\\x00', now() FROM unnest('{chat,mail}'::text[]) AS name`
  yield* sql`
    INSERT INTO clients (project_id, id, display_name, tags, status, marketing_consent, suppressed, version, created_at,
      updated_at, archived_at)
    SELECT ${id}, 'cli_' || md5(n::text), 'Ada Lovelace ' || n, ARRAY['newsletter', 'cohort-' || n % 50],
      CASE WHEN n % 20 = 0 THEN 'archived' ELSE 'active' END, n % 10 > 0, n % 50 = 0, 1,
      now() - n * interval '1 second', now(), CASE WHEN n % 20 = 0 THEN now() END
    FROM generate_series(1, ${size}::int) n`.pipe(sql.withTransaction)
  yield* sql`
    INSERT INTO client_addresses (project_id, client_id, position, channel_id, address)
    SELECT ${id}, 'cli_' || md5(n::text), 0, 'chat', 'chat-' || ${sql.literal(distributions[distribution])}
    FROM generate_series(1, ${size}::int) n
    UNION ALL
    SELECT ${id}, 'cli_' || md5(n::text), 1, 'mail',
      'mail-' || ${sql.literal(distribution === "chain" ? "(n + 1) / 2" : "n")}
    FROM generate_series(1, ${size}::int) n`
  yield* sql`
    INSERT INTO campaigns (project_id, id, name, created_at, updated_at) VALUES (${id}, 'spring', 'Spring', now(), now())`
})

const filter = { contactStatus: "active", providerTypes: [], requiredTags: ["newsletter"], stageIds: [] }

/** Freezes once, and returns the time to the answer in milliseconds. */
const freeze = Effect.fnUntraced(function* ({ url }: Running, token: string) {
  const started = yield* Clock.currentTimeNanos
  const answer = yield* Effect.promise(() =>
    fetch(`${url}/api/v1/developer/campaigns/spring`, {
      method: "PATCH",
      headers: {
        authorization: `Bearer ${token}`,
        "content-type": "application/json",
        "idempotency-key": randomUUID()
      },
      body: JSON.stringify({ operation: "freeze_audience", filter })
    })
  )
  const text = yield* Effect.promise(() => answer.text())
  if (answer.status !== 200) return yield* new BenchFailed({ message: `${answer.status} ${text}` })
  return Number((yield* Clock.currentTimeNanos) - started) / 1e6
})

/** Runs the rounds of one project. */
const measureOne = Effect.fnUntraced(function* (
  server: Running,
  sql: PgClient.PgClient,
  { distribution, rounds, size }: Options & { readonly size: number; readonly distribution: Distribution }
) {
  const projectId = ProjectId.make(`freeze_${distribution}_${size}`)
  yield* populate(sql, projectId, size, distribution)
  const { token } = yield* (yield* ApiKeys).issue({
    projectId,
    name: "bench",
    scopes: ["campaigns.write"],
    expiresIn: Duration.days(1),
    memberId: Option.none()
  })
  const millis: Array<number> = []
  for (let i = 0; i < rounds; i++) millis.push(yield* freeze(server, Redacted.value(token)))
  const [counts] = yield* sql<{ readonly eligible: number }>`
    SELECT eligible_count AS eligible FROM audiences JOIN campaigns USING (project_id)
    WHERE project_id = ${projectId} AND audiences.id = campaigns.audience_id`
  yield* progress(`freeze: ${distribution}, ${size} clients: ${median(millis).toFixed(0)} ms`)
  return { distribution, clients: size, eligible: counts?.eligible ?? 0, millis }
})

/** Starts PostgreSQL and the service, and measures all distributions and sizes. */
export const measure = Effect.fnUntraced(function* (options: Options) {
  yield* progress("starting PostgreSQL and the service")
  const url = yield* database({})
  const sql = yield* connect(url)
  const server = yield* start(service("ours"), url)
  const keys = Layer.provide(ApiKeys.layerOf(Option.none()), Layer.succeed(SqlClient.SqlClient, sql))
  const measured = yield* Effect.forEach(
    distributionNames.flatMap((distribution) => sizes.map((size) => ({ ...options, distribution, size }))),
    (one) => measureOne(server, sql, one)
  ).pipe(Effect.provide(keys))
  const head = ["FREEZE", "CLIENTS", "ELIGIBLE", "MS", "THE FIRST", "µs/CLIENT"]
  const lines = measured.map(({ clients, distribution, eligible, millis }) => [
    distribution,
    String(clients),
    String(eligible),
    ranged(millis, 0),
    fixed(millis[0] ?? Number.NaN, 0),
    fixed((median(millis) * 1000) / clients, 1)
  ])
  const findings: Findings = {
    document: {
      settings: { ...options, node: process.version },
      audiences: measured.map(({ millis, ...audience }) => ({
        ...audience,
        millis: spread(millis),
        first: round(millis[0] ?? Number.NaN)
      }))
    },
    text: table([head, ...lines])
  }
  return findings
}, Effect.scoped)

export const command = Command.make(
  "freeze",
  { json, rounds: count("rounds", usual.rounds, "Freezes of each audience") },
  Effect.fnUntraced(function* ({ json, ...options }) {
    const { document, text } = yield* measure(options)
    yield* answer(json, document, text)
  })
).pipe(Command.withDescription("How long audiences of 1,000 to 100,000 clients take to freeze"))
