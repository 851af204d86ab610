/** The statement of a mutation: claims the keys of its commands, applies their changes, and returns their receipts. */
import type { SqlClient, Statement } from "effect/sql"

/** What became of one command. */
export interface Attempt<Returned> {
  readonly ord: number
  readonly failure: string | null
  readonly resourceId: string
  readonly changed: boolean
  readonly version: number | null
  /** Whether the change was applied: there is no failure, and the key was free. */
  readonly claimed: boolean
  readonly returned: Returned
}

/** The parts that make one statement another than the next. */
export interface Parts {
  /** A query of the commands: `ord`, `project_id`, `key`, `fingerprint`, `at`, and arguments. */
  readonly asked: Statement.Fragment
  /** Common table expressions that end in `verdict`; see `Mutation` and `Grouped`. */
  readonly verdict: Statement.Fragment
  /** The condition that joins `verdict` to `command`. */
  readonly joined: Statement.Fragment
  /** Common table expressions that apply the changes from `claim (ord, changed)`. */
  readonly effect: Statement.Fragment
  /** What the first run alone returns. */
  readonly returning?: Statement.Fragment | undefined
}

/**
 * The commands without a row are those whose project is locked by a project file, or changed by one since the statement
 * began: `enter_project` takes the shared advisory lock that a file takes exclusively, and returns the revision as it is
 * then; where the statement sees another, all that it sees may be old. The lock is never waited for, so a file that waits
 * goes first.
 *
 * Locks are taken in one order by every statement: records, the project's row (where a capacity is counted), keys; within
 * each, by project and id. So no two statements wait for each other.
 */
export const attempt = <Returned>(sql: SqlClient.SqlClient, { asked, effect, joined, returning, verdict }: Parts) =>
  sql<Attempt<Returned>>`
    WITH asked AS MATERIALIZED (${asked}),
    entered AS MATERIALIZED (
      SELECT project_id, enter_project(project_id) AS revision FROM (SELECT DISTINCT project_id FROM asked) AS project
    ),
    command AS MATERIALIZED (
      SELECT asked.*, projects.contact_capacity, projects.default_pipeline_id, projects.time_zone
      FROM asked JOIN entered USING (project_id) JOIN projects USING (project_id, revision)
    ),
    ${verdict},
    claimed AS (
      INSERT INTO idempotency_keys (project_id, key, fingerprint, resource_id, changed, version, created_at)
      SELECT command.project_id, command.key, command.fingerprint, verdict.resource_id, verdict.changed,
             verdict.version, command.at
      FROM command JOIN verdict ON ${joined} WHERE failure IS NULL
      ORDER BY command.project_id, command.key
      ON CONFLICT (project_id, key) DO NOTHING
      RETURNING project_id, key, changed
    ),
    claim AS MATERIALIZED (SELECT ord, claimed.changed FROM claimed JOIN command USING (project_id, key)),
    ${effect}
    SELECT command.ord, failure, resource_id AS "resourceId", verdict.changed, verdict.version,
           claim.ord IS NOT NULL AS claimed, ${returning ?? sql.literal("NULL")} AS returned
    FROM command JOIN verdict ON ${joined} LEFT JOIN claim ON claim.ord = command.ord`
