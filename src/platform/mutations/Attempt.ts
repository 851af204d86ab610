/** The statement of a mutation: claims the keys of its commands, applies their changes, and returns their receipts. */
import type { SqlClient, Statement } from "effect/sql"

/** The result of one command. */
export interface Attempt<Returned> {
  readonly ord: number
  readonly failure: string | null
  readonly resourceId: string
  readonly changed: boolean
  readonly version: number | null
  /** Whether the change was applied: no guard failed, and the key was free. */
  readonly claimed: boolean
  readonly returned: Returned
}

/** The parts in which mutation statements differ. */
interface Parts {
  /** A query of the commands: `ord`, `project_id`, `key`, `fingerprint`, `at`, and arguments. */
  readonly requested: Statement.Fragment
  /** Whether `requested` is one command. */
  readonly isOne: boolean
  /**
   * Common table expressions over `command (ord, project_id, key, fingerprint, at, contact_capacity, default_pipeline_id,
   * time_zone, …arguments)` that end in `decided`: the commands with `failure`, `resource_id`, `changed` and `version`.
   */
  readonly decided: Statement.Fragment
  /** The columns of `decided` that `claim` needs. */
  readonly claim: Statement.Fragment
  /** Common table expressions that apply the changes from `claim`, the commands that hold their key now. */
  readonly effect: Statement.Fragment
  /** The value that only the first run returns. */
  readonly returning?: Statement.Fragment | undefined
}

/**
 * Commands without a row are those whose project a project file locks, or has changed since the statement began:
 * `enter_project` takes the shared advisory lock that a file takes exclusively, and returns the revision at that
 * moment; if the statement's snapshot has another, all its reads may be old. The statement never waits for the lock, so
 * a waiting file goes first.
 *
 * Every statement takes its locks in one order: records, the project's row (where a capacity is counted), keys; within
 * each, by project and id. So statements do not deadlock. OFFSET 0 forces a look-up by key: a join could be
 * planned as a scan while the table is small, and the plan kept when it has grown. So could the join of a change to its
 * records if `claim` were not materialized.
 */
export const attempt = <Returned>(
  sql: SqlClient.SqlClient,
  { requested, claim, decided, effect, isOne, returning }: Parts
) =>
  sql<Attempt<Returned>>`
    WITH ${isOne ? enterOne(sql, requested) : enterMany(sql, requested)},
    ${decided},
    claimed AS (
      INSERT INTO idempotency_keys (project_id, key, fingerprint, resource_id, changed, version, created_at)
      SELECT project_id, key, fingerprint, resource_id, changed, version, at
      FROM decided WHERE failure IS NULL
      ${sql.literal(isOne ? "" : "ORDER BY project_id, key")}
      ON CONFLICT (project_id, key) DO NOTHING
      RETURNING project_id, key
    ),
    claim AS MATERIALIZED (SELECT ${claim} FROM claimed JOIN decided USING (project_id, key)),
    ${effect}
    SELECT ord, failure, resource_id AS "resourceId", changed, version,
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
