/**
 * The statement of a mutation. It stores the idempotency keys of its commands, applies the changes, and returns a row per
 * command.
 */
import type { SqlClient, Statement } from "effect/sql"
import type { Fiber } from "effect"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { redactSecrets } from "../secrets/Redaction.ts"
import { currentSpan } from "../telemetry/TraceContext.ts"

export interface Attempt<Returned> {
  readonly ord: number
  /** The code of the problem that a failed guard gives; null if no guard failed. */
  readonly failure: string | null
  /** What the problem is about, such as the references that are missing. */
  readonly faults: ReadonlyArray<string> | null
  readonly resourceId: string
  readonly changed: boolean
  readonly version: number | null
  /** True if `failure` is null and the key was free, so that the change was applied. */
  readonly claimed: boolean
  readonly returned: Returned
}

interface Parts {
  /** A query of the commands, with the columns `ord`, `project_id`, `key`, `fingerprint`, `at`, `origin` and the arguments. */
  readonly requested: Statement.Fragment
  readonly isOne: boolean
  /**
   * Common table expressions over `command (ord, project_id, key, fingerprint, at, origin, contact_capacity, default_pipeline_id,
   * time_zone, …arguments)`. The last one is `decided`: the columns of `command`, `failure text`, `faults text[]`,
   * `resource_id`, `changed`, `version` and those that the effect needs.
   */
  readonly decided: Statement.Fragment
  /**
   * Common table expressions that apply the changes of the commands in `claim`. `claim` has the rows of `decided` whose keys this
   * statement has inserted.
   */
  readonly effect: Statement.Fragment
  /** An expression for a value that only the first run of a command returns; it is not stored. */
  readonly returning?: Statement.Fragment | undefined
}

/**
 * Returns a row for each command, except a command whose project is locked by a project file or by a move to another database,
 * or was changed by one of them since the statement began. `enter_project` takes the advisory lock of the project in shared
 * mode, and returns the current revision of the project. If the snapshot of the statement has another revision, all its reads
 * may be outdated. Project files and moves take the same lock exclusively. The statement never waits for this lock: while
 * another session holds it or waits for it exclusively, the command has no row.
 *
 * Every statement takes its locks in one order: records, the row of the project (if a capacity is counted), keys; each kind by
 * project and id. So statements do not deadlock. OFFSET 0 and the materialized `claim` force look-ups by key. Otherwise the
 * planner could choose a scan while a table is small, and PostgreSQL would keep the plan when the table has grown.
 */
export const attempt = <Returned>(sql: SqlClient.SqlClient, { requested, decided, effect, isOne, returning }: Parts) =>
  sql<Attempt<Returned>>`
    WITH ${isOne ? enterOne(sql, requested) : enterMany(sql, requested)},
    ${decided},
    claimed AS (
      INSERT INTO idempotency_keys (project_id, key, fingerprint, resource_id, changed, version, created_at,
        request_id, trace_id, key_id, operation)
      SELECT project_id, key, fingerprint, resource_id, changed, version, at, ${sql.literal(originParts)}
      FROM decided WHERE failure IS NULL
      ${sql.literal(isOne ? "" : "ORDER BY project_id, key")}
      ON CONFLICT (project_id, key) DO NOTHING
      RETURNING project_id, key
    ),
    claim AS MATERIALIZED (SELECT decided.* FROM claimed JOIN decided USING (project_id, key)),
    ${effect}
    SELECT ord, failure, faults, resource_id AS "resourceId", changed, version,
           ${sql.literal(isOne ? "EXISTS (SELECT FROM claimed)" : "ord = ANY(ARRAY(SELECT ord FROM claim))")} AS claimed,
           ${returning ?? sql.literal("NULL")} AS returned
    FROM decided`

const project = (id: string, revision: string) => `LATERAL (
  SELECT contact_capacity, default_pipeline_id, time_zone FROM projects
  WHERE projects.project_id = ${id} AND projects.revision = ${revision}
  OFFSET 0
) AS project`

const enterOne = (sql: SqlClient.SqlClient, requested: Statement.Fragment) => sql`command AS MATERIALIZED (
    SELECT requested.*, project.*
    FROM (${requested}) AS requested, ${sql.literal(project("requested.project_id", "enter_project(requested.project_id)"))}
  )`

const enterMany = (
  sql: SqlClient.SqlClient,
  requested: Statement.Fragment
) => sql`requested AS MATERIALIZED (${requested}),
  entered AS MATERIALIZED (
    SELECT entered.project_id, project.*
    FROM (
      SELECT project_id, enter_project(project_id) AS revision FROM (SELECT DISTINCT project_id FROM requested) AS id
    ) AS entered, ${sql.literal(project("entered.project_id", "entered.revision"))}
  ),
  command AS MATERIALIZED (
    SELECT requested.*, contact_capacity, default_pipeline_id, time_zone FROM requested JOIN entered USING (project_id)
  )`

/** The ids of the request, of its trace and of its key, and the operation. An operator's command has no request. */
export type Origin = readonly [
  requestId: string | null,
  traceId: string | null,
  keyId: string | null,
  operation: string
]

/** The column of `command` with the origin, and its parts in the order of the columns of `idempotency_keys`. */
export const originColumn = { origin: "text[]" }
const originParts = "origin[1], origin[2], origin[3], origin[4]"

export const originOf = (fiber: Fiber.Fiber<unknown, unknown>, operation: string): Origin => {
  const { caller, id } = fiber.getRef(CurrentRequest)
  if (id === "") return [null, null, null, operation]
  return [redactSecrets(id), currentSpan(fiber.context)?.traceId ?? null, caller?.keyId ?? null, operation]
}
