/** The credential of a request, as its caller sees it (contract §3). */
import { Clock, Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { defaultRateLimits, type Policy, Principal, type RateLimit } from "../api/Access.ts"
import type { Credential } from "../api/Credential.ts"
import { CredentialInvalid } from "../api/Problems.ts"
import type { KeyId, ProjectId } from "../api/schema/Ids.ts"
import { monotonicMillis } from "../platform/MonotonicTime.ts"
import { selectList } from "../sql/Columns.ts"
import { statement } from "../sql/Database.ts"
import { groupOf } from "../http/path/Handlers.ts"

/** A larger count of active clients is known for `recount`: to count takes a time that grows with them, such as 40 ms for 100,000. */
const countedAtOnce = 10_000
const recount = Duration.toMillis(Duration.seconds(10))
const maxKnown = 1_000

export const makeGetCredential = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const clock = yield* Clock.Clock
  /** Large counts alone, so that most projects have no entry. Times are monotonic, in milliseconds. */
  const counts = new Map<ProjectId, { readonly count: number; readonly until: number }>()
  return Effect.fnUntraced(function* (projectId: ProjectId, keyId: KeyId) {
    const now = monotonicMillis(clock)
    const kept = counts.get(projectId)
    const known = kept !== undefined && now < kept.until ? kept.count : null
    const [found] = yield* statement(get(sql, projectId, keyId, known))
    if (found === undefined) return yield* new CredentialInvalid()
    if (known === null && found.activeClients > countedAtOnce) {
      if (counts.size >= maxKnown) counts.clear()
      counts.set(projectId, { count: found.activeClients, until: now + recount })
    }
    return { ...found, rateLimits: { ...defaultRateLimits, ...found.rateLimits } } satisfies Credential
  })
})

interface Row extends Omit<Credential, "rateLimits"> {
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
  contactCapacity: ["contact_capacity", "integer"]
})

/** Active clients are counted while there is a capacity only, so a project without one counts them here, unless the count is known. */
const get = (sql: SqlClient.SqlClient, projectId: ProjectId, keyId: KeyId, known: number | null) => sql<Row>`
  SELECT ${sql.literal(columns)}, CASE WHEN contact_capacity IS NOT NULL THEN active_clients ELSE coalesce(${known}::integer, (
      SELECT count(*)::integer FROM clients
      WHERE project_id = ${projectId} AND status = 'active' AND created_at > '-infinity'
    )) END AS "activeClients"
  FROM projects JOIN api_keys ON api_keys.project_id = projects.project_id
  WHERE projects.project_id = ${projectId} AND key_id = ${keyId}`

export const handlers = groupOf("credential", makeGetCredential, (get, handlers) =>
  handlers({ getCredential: () => Principal.use(({ keyId, projectId }) => get(projectId, keyId)) })
)
