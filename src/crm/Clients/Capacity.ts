/** The contact capacity of projects (contract §7). The count of active clients is exact under concurrency. */
import type { SqlClient, Statement } from "effect/sql"
import { ContactCapacityExhausted } from "../../api/Problems.ts"

/**
 * Locks the rows of the limited projects among `projects`, a query of distinct ids in their order, and reads their free
 * capacity. The lock comes before the read: of two concurrent statements, the second sees the clients of the first.
 */
export const lockCapacity = (sql: SqlClient.SqlClient, projects: Statement.Fragment) => sql`
  capacity AS MATERIALIZED (
    SELECT limited.project_id, counter.free FROM (${projects}) AS limited, LATERAL (
      SELECT contact_capacity - active_clients AS free FROM projects
      WHERE projects.project_id = limited.project_id
      FOR NO KEY UPDATE
    ) AS counter
  )`

/** Adds the changes of active clients to the projects' counters; `moves` is a query of projects, each with its change. */
export const addActiveClients = (sql: SqlClient.SqlClient, moves: Statement.Fragment) => sql`
  counted AS (
    UPDATE projects SET active_clients = active_clients + moves.change
    FROM (${moves}) AS moves WHERE projects.project_id = moves.project_id
  )`

export const contact_capacity_exhausted = () =>
  new ContactCapacityExhausted({ detail: "Archive a client, or ask the operator for a larger contact capacity." })
