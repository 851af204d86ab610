/**
 * `node test/bench/freeze.ts`: how long an audience of 1,000, 10,000 and 100,000 clients takes to freeze, from the request
 * to the answer, on a durable PostgreSQL. `--json` prints one JSON document.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import type { PgClient } from "@effect/sql-pg"
import { Clock, Console, Duration, Effect, Layer, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { randomUUID } from "node:crypto"
import { argv } from "node:process"
import { ProjectId } from "../../src/api/Ids.ts"
import { ApiKeys } from "../../src/platform/auth/ApiKeys.ts"
import { median } from "./Report.ts"
import { BenchFailed, type Contender, make, service } from "./Stage.ts"

export const sizes = [1_000, 10_000, 100_000]
const rounds = 5

/** How the clients of a project share their addresses. */
const crowds = {
  /** A fifth shares one with the client before. */
  usual: "CASE WHEN n % 5 = 0 THEN n - 1 ELSE n END",
  /** Each shares one with the client before and one with the client after, so every second one is eligible. */
  chain: "n / 2",
  /** All share one. */
  one: "0"
}
type Crowd = keyof typeof crowds

/** A project of so many clients, as if a file had just made it: nothing is known of its tables yet. */
const populate = Effect.fnUntraced(function* (sql: PgClient.PgClient, id: string, size: number, crowd: Crowd) {
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
    SELECT ${id}, 'cli_' || md5(n::text), 0, 'chat', 'chat-' || ${sql.literal(crowds[crowd])}
    FROM generate_series(1, ${size}::int) n
    UNION ALL
    SELECT ${id}, 'cli_' || md5(n::text), 1, 'mail',
      'mail-' || ${sql.literal(crowd === "chain" ? "(n + 1) / 2" : "n")}
    FROM generate_series(1, ${size}::int) n`
  yield* sql`
    INSERT INTO campaigns (project_id, id, name, created_at, updated_at) VALUES (${id}, 'spring', 'Spring', now(), now())`
})

const filter = { contactStatus: "active", providerTypes: [], requiredTags: ["newsletter"], stageIds: [] }

/** Freezes once, and tells how many milliseconds the answer took. */
const freeze = Effect.fnUntraced(function* ({ url }: Contender, token: string) {
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

/** The rounds of one project. */
const measure = Effect.fnUntraced(function* (contender: Contender, sql: PgClient.PgClient, size: number, crowd: Crowd) {
  const projectId = ProjectId.make(`freeze_${crowd}_${size}`)
  yield* populate(sql, projectId, size, crowd)
  const { token } = yield* (yield* ApiKeys).issue({
    projectId,
    name: "bench",
    scopes: ["campaigns.write"],
    expiresIn: Duration.days(1),
    memberId: Option.none()
  })
  const millis: Array<number> = []
  for (let round = 0; round < rounds; round++) millis.push(yield* freeze(contender, Redacted.value(token)))
  const [counts] = yield* sql<{ readonly eligible: number }>`
    SELECT eligible_count AS eligible FROM audiences JOIN campaigns USING (project_id)
    WHERE project_id = ${projectId} AND audiences.id = campaigns.audience_id`
  return {
    crowd,
    clients: size,
    eligible: counts?.eligible ?? 0,
    first: millis[0] ?? 0,
    median: median(millis),
    millis
  }
})

/** Freezes in projects of every size, each with every way to share addresses. */
export const freezes = Effect.gen(function* () {
  const { contenders, sql } = yield* make([service("ours")])
  const [contender] = contenders
  if (contender === undefined) return yield* new BenchFailed({ message: "There is no server" })
  const keys = Layer.provide(ApiKeys.layer, Layer.succeed(SqlClient.SqlClient, sql))
  const measured = []
  for (const crowd of ["usual", "chain", "one"] as const) {
    for (const size of sizes) {
      measured.push(yield* Effect.provide(measure(contender, sql, size, crowd), keys))
    }
  }
  return measured
})

const micros = (millis: number, clients: number) => ((millis * 1000) / clients).toFixed(1)

if (import.meta.main) {
  freezes.pipe(
    Effect.flatMap((measured) =>
      Console.log(
        argv.includes("--json")
          ? JSON.stringify(measured, null, 2)
          : measured
              .map(
                ({ clients, crowd, eligible, first, median }) =>
                  `${crowd.padEnd(6)} ${String(clients).padStart(7)} clients, ${String(eligible).padStart(6)} eligible: ` +
                  `${median.toFixed(0).padStart(5)} ms (the first ${first.toFixed(0)}), ${micros(median, clients)} µs a client`
              )
              .join("\n")
      )
    ),
    Effect.scoped,
    Effect.provide(NodeServices.layer),
    NodeRuntime.runMain
  )
}
