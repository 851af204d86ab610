/** The credential of a request, as its caller sees it (contract §3). */
import { Cache, Clock, Context, Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { defaultRateLimits, type Policy, type RateLimit } from "../api/Access.ts"
import type { Credential } from "../api/Credential.ts"
import { CredentialInvalid } from "../api/Problems.ts"
import type { KeyId, ProjectId } from "../api/schema/Ids.ts"
import { monotonicClock } from "../platform/MonotonicTime.ts"
import { selectList } from "../sql/Columns.ts"
import { sqlClients } from "../sql/Connections.ts"
import { retryContended, statement, withTimeout } from "../sql/Database.ts"

/** A larger count of active clients is kept for 10 s: to count takes a time that grows with them, such as 40 ms for 100,000. */
const countedAtOnce = 10_000

export const makeGetCredential = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const reports = Context.get(yield* Layer.build(sqlClients.reports), SqlClient.SqlClient)
  const clock = yield* Clock.Clock
  /** Callers that ask for a project at once share a count, which ends when none of them waits any more. */
  const counts = yield* Cache.makeWith(
    (projectId: ProjectId) =>
      retryContended(count(reports, projectId)).pipe(
        Effect.map(([row]) => row?.active ?? 0),
        Effect.provideService(Clock.Clock, clock)
      ),
    { capacity: 1_000, timeToLive: (exit) => (Exit.isSuccess(exit) && exit.value > countedAtOnce ? "10 seconds" : 0) }
  )
  /** The cache measures by the time of day. */
  const counted = (projectId: ProjectId) =>
    Effect.provideService(withTimeout(Cache.get(counts, projectId)), Clock.Clock, monotonicClock(clock))
  return Effect.fnUntraced(function* (projectId: ProjectId, keyId: KeyId) {
    const [found] = yield* statement(get(sql, projectId, keyId))
    if (found === undefined) return yield* new CredentialInvalid()
    const activeClients = found.activeClients ?? (yield* counted(projectId))
    return { ...found, activeClients, rateLimits: { ...defaultRateLimits, ...found.rateLimits } } satisfies Credential
  })
})

interface Row extends Omit<Credential, "rateLimits" | "activeClients"> {
  /** Null in a project without a capacity: clients are counted only while there is one. */
  readonly activeClients: number | null
  readonly rateLimits: Partial<Record<Policy, RateLimit>>
}

const columns = selectList({
  projectId: "projects.project_id",
  projectName: "projects.name",
  timeZone: "time_zone",
  modules: ["modules", "text[]"],
  keyId: "key_id",
  name: "api_keys.name",
  scopes: ["scopes", "text[]"],
  memberId: "member_id",
  expiresAt: ["expires_at", "timestamptz"],
  rateLimits: ["rate_limits", "jsonb"],
  contactCapacity: ["contact_capacity", "integer"],
  activeClients: ["CASE WHEN contact_capacity IS NOT NULL THEN active_clients END", "integer"]
})

const get = (sql: SqlClient.SqlClient, projectId: ProjectId, keyId: KeyId) => sql<Row>`
  SELECT ${sql.literal(columns)}
  FROM projects JOIN api_keys ON api_keys.project_id = projects.project_id
  WHERE projects.project_id = ${projectId} AND key_id = ${keyId}`

const count = (sql: SqlClient.SqlClient, projectId: ProjectId) => sql<{ readonly active: number }>`
  SELECT count(*)::integer AS active FROM clients
  WHERE project_id = ${projectId} AND status = 'active' AND created_at > '-infinity'`
