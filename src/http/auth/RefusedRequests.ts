/**
 * Counts refused requests (401, 403, 429) by the key of their token, so that operators see who floods, and who uses a key that was
 * revoked. A token counts by the id of its key, also one with a wrong secret.
 */
import { Context, Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { forkPeriodic } from "../../work/Supervisor.ts"
import { selectList } from "../../sql/Columns.ts"
import { statement } from "../../sql/Database.ts"
import { isAwake } from "../../platform/MoveState.ts"

interface Count {
  readonly keyId: string
  readonly status: number
  count: number
}

interface Refused extends Count {
  readonly projectId: string
  readonly keyName: string
  readonly lastAt: string
}

/** Maximum number of counts between two writes. Further keys are not counted until then. */
const maxCounts = 1_000

const interval = Duration.minutes(1)

/** Number of keys that are logged and shown: those with the most refused requests. */
export const maxShown = 20

/** Lists the keys with the most refused requests of the last day. */
export const listRefused = (sql: SqlClient.SqlClient) => sql<Refused>`
  SELECT ${sql.literal(selectList(columns, "refused"))}, api_keys.name AS "keyName"
  FROM (
    SELECT * FROM refused_requests WHERE last_at > now() - interval '1 day' ORDER BY count DESC LIMIT ${maxShown}::int
  ) refused JOIN api_keys USING (project_id, key_id)
  ORDER BY refused.count DESC`

const columns = {
  projectId: "project_id",
  keyId: "key_id",
  status: ["status", "integer"],
  count: ["count", "bigint"],
  lastAt: ["last_at", "timestamptz"]
} as const

export class RefusedRequests extends Context.Service<
  RefusedRequests,
  { readonly count: (keyId: string, status: number) => void }
>()("developer-api-service/http/auth/RefusedRequests") {
  static readonly layer = Layer.effect(
    RefusedRequests,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      let counts = new Map<string, Count>()
      const write = Effect.gen(function* () {
        if (counts.size === 0) return
        const rows = [...counts.values()]
        counts = new Map()
        // Keys that do not exist have no project, and are left out.
        const known = yield* statement(sql<Count & Pick<Refused, "projectId">>`
          WITH refused AS (
            SELECT project_id, key_id, status, refused.count
            FROM unnest(${rows.map(({ keyId }) => keyId)}::text[], ${rows.map(({ status }) => status)}::int[],
              ${rows.map(({ count }) => count)}::int[]) AS refused (key_id, status, count)
              JOIN api_keys USING (key_id)
            WHERE ${isAwake(sql, "project_id")}
          ),
          written AS (
            INSERT INTO refused_requests AS old (project_id, key_id, status, count, since, last_at)
            SELECT project_id, key_id, status, count, now(), now() FROM refused ORDER BY project_id, key_id, status
            ON CONFLICT (project_id, key_id, status) DO UPDATE SET last_at = now(),
              count = excluded.count + CASE WHEN old.since > now() - interval '1 day' THEN old.count ELSE 0 END,
              since = CASE WHEN old.since > now() - interval '1 day' THEN old.since ELSE now() END
          )
          SELECT project_id AS "projectId", key_id AS "keyId", status, count FROM refused
          ORDER BY count DESC LIMIT ${maxShown}::int`)
        for (const { count, keyId, projectId, status } of known) {
          yield* Effect.annotateLogs(Effect.logWarning(`${count} requests were refused with ${status}`), {
            project_id: projectId,
            key_id: keyId
          })
        }
      })
      // A process that ends writes what it has counted.
      yield* Effect.addFinalizer(() => Effect.ignore(write))
      yield* forkPeriodic("counts of refused requests", { interval }, write)
      return {
        count: (keyId, status) => {
          const name = `${keyId} ${status}`
          const known = counts.get(name)
          if (known !== undefined) known.count++
          else if (counts.size < maxCounts) counts.set(name, { keyId, status, count: 1 })
        }
      }
    })
  )
}
