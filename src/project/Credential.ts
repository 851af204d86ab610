/** The credential of a request, as its caller sees it (contract §3). */
import { Cache, Duration, Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import type { Policy } from "../api/Access.ts"
import { defaultRateLimits, Principal, type RateLimit } from "../api/Authentication.ts"
import type { Credential } from "../api/Credential.ts"
import { CredentialInvalid } from "../api/Problems.ts"
import type { KeyId, ProjectId } from "../api/schema/Ids.ts"
import { selectList } from "../sql/Columns.ts"
import { statement } from "../sql/Database.ts"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../api/Api.ts"
import { groupOf, withoutEncoding } from "../http/answers/Groups.ts"

/** A larger count of active clients is read again after `recount`. */
const countedAtOnce = 10_000
const recount = Duration.seconds(10)

/**
 * Active clients are counted while there is a capacity only, so those of a project without one are counted here. A count takes a time that
 * grows with them (12 ms of 100,000), so a large one is kept for a while.
 */
export const makeGetCredential = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const counts = yield* Cache.makeWith(
    (projectId: ProjectId) => Effect.map(statement(countActive(sql, projectId)), ([row]) => row?.count ?? 0),
    {
      capacity: 1_000,
      timeToLive: (exit) => (Exit.isSuccess(exit) && exit.value > countedAtOnce ? recount : Duration.zero)
    }
  )
  return Effect.fnUntraced(function* (projectId: ProjectId, keyId: KeyId) {
    const [found] = yield* statement(get(sql, projectId, keyId))
    if (found === undefined) return yield* new CredentialInvalid()
    const { activeClients, rateLimits, ...credential } = found
    return {
      ...credential,
      rateLimits: { ...defaultRateLimits, ...rateLimits },
      activeClients: credential.contactCapacity === null ? yield* Cache.get(counts, projectId) : activeClients
    } satisfies Credential
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
  contactCapacity: ["contact_capacity", "integer"],
  activeClients: ["active_clients", "integer"]
})

const get = (sql: SqlClient.SqlClient, projectId: ProjectId, keyId: KeyId) => sql<Row>`
  SELECT ${sql.literal(columns)} FROM projects JOIN api_keys ON api_keys.project_id = projects.project_id
  WHERE projects.project_id = ${projectId} AND key_id = ${keyId}`

/** Reads the index `clients_by_status` alone. */
const countActive = (sql: SqlClient.SqlClient, projectId: ProjectId) => sql<{ readonly count: number }>`
  SELECT count(*)::integer AS count FROM clients
  WHERE project_id = ${projectId} AND status = 'active' AND created_at > '-infinity'`

export const handlers = groupOf(makeGetCredential, (get) =>
  HttpApiBuilder.group(Api, "credential", (handlers) =>
    handlers.handleAll(
      withoutEncoding({ getCredential: () => Principal.use(({ keyId, projectId }) => get(projectId, keyId)) })
    )
  )
)
