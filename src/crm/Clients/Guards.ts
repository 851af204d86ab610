/**
 * What the statements that write clients check (contract §7): the contact capacity of the project, whose count of active clients is
 * exact under concurrency, and the references to a member and an organization.
 */
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

/** Returns LEFT JOINs of the records that a command refers to. They are read by their keys, whatever the plan of the rest is. */
export const clientReferences = (memberId: string, organizationId: string): string => `
  LEFT JOIN LATERAL (
    SELECT id FROM members WHERE project_id = command.project_id AND id = ${memberId} OFFSET 0
  ) AS member ON true
  LEFT JOIN LATERAL (
    SELECT id, archived FROM organizations WHERE project_id = command.project_id AND id = ${organizationId} OFFSET 0
  ) AS organization ON true`

/** Returns the branches of a CASE with the failures of these references. */
export const referenceFailures = (memberId: string, organizationId: string): string => `
  WHEN ${memberId} IS NOT NULL AND member.id IS NULL THEN 'member_not_found'
  WHEN ${organizationId} IS NOT NULL AND organization.id IS NULL THEN 'organization_not_found'
  WHEN organization.archived THEN 'organization_archived'`
