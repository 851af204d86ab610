/** The contact capacity of projects (contract §7): the count of active clients is exact under concurrency. */
import type { SqlClient, Statement } from "effect/sql"
import { ContactCapacityExhausted } from "../../api/Problems.ts"

/**
 * The free places of the limited projects among `projects`, a query of ids. Their rows are locked, in the order of their
 * ids, before the count is read: of two statements for the last place, one sees the other's client.
 */
export const places = (sql: SqlClient.SqlClient, projects: Statement.Fragment) => sql`
  places AS MATERIALIZED (
    SELECT limited.project_id, counted.free
    FROM (SELECT DISTINCT project_id FROM (${projects}) AS project ORDER BY project_id) AS limited, LATERAL (
      SELECT contact_capacity - active_clients AS free FROM projects
      WHERE projects.project_id = limited.project_id
      FOR NO KEY UPDATE
    ) AS counted
  )`

/** Counts the clients that became active, and those that are so no longer; `moves` is a query of projects and changes. */
export const counted = (sql: SqlClient.SqlClient, moves: Statement.Fragment) => sql`
  counted AS (
    UPDATE projects SET active_clients = active_clients + moved.change
    FROM (SELECT project_id, sum(change)::int AS change FROM (${moves}) AS move (project_id, change) GROUP BY project_id)
      AS moved
    WHERE projects.project_id = moved.project_id
  )`

export const contact_capacity_exhausted = () =>
  new ContactCapacityExhausted({ detail: "Archive a client, or ask for a larger contact capacity." })
