/** The contact capacity of projects (contract §7). The count of active clients is exact under concurrency. */
import type { SqlClient, Statement } from "effect/sql"

/**
 * Locks the rows of projects, then reads the free capacity of each. If the read came before the lock, a statement that waited
 * for the lock would not count the clients of the statement before it. `projects` is a query of distinct project ids, in lock
 * order.
 */
export const lockCapacity = (sql: SqlClient.SqlClient, projects: Statement.Fragment) => sql`
  capacity AS MATERIALIZED (
    SELECT limited.project_id, counter.free FROM (${projects}) AS limited, LATERAL (
      SELECT contact_capacity - active_clients AS free FROM projects
      WHERE projects.project_id = limited.project_id
      FOR NO KEY UPDATE
    ) AS counter
  )`

/** Changes the counters of active clients. `moves` is a query of `project_id` and `change`, with at most one row per project. */
export const addActiveClients = (sql: SqlClient.SqlClient, moves: Statement.Fragment) => sql`
  counted AS (
    UPDATE projects SET active_clients = active_clients + moves.change
    FROM (${moves}) AS moves WHERE projects.project_id = moves.project_id
  )`
