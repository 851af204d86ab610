/** Counts the records of each project that wait for an operator. */
import type { SqlClient, Statement } from "effect/sql"
import { isDead } from "../integrations/deliveries/DeliveryList.ts"
import { needsDecision } from "../messaging/MessageList.ts"
import { isAwake } from "../platform/Moves.ts"

/** Maximum of each count, so that a long backlog is not read to its end. */
export const maxCount = 10_000

export interface Waiting {
  readonly projectId: string
  readonly dead: number
  readonly unknown: number
  readonly disabled: number
  readonly paused: number
  /** Whether `maxCount` messages of unknown outcome were read, so that there may be more. */
  readonly hasMore: boolean
}

const bounded = (sql: SqlClient.SqlClient, of: Statement.Fragment) =>
  sql`(SELECT count(*)::int FROM (SELECT ${of} LIMIT ${maxCount}::int) counted)`

/**
 * Finds the first `limit` projects with a record that waits for an operator, except projects at rest. Counts end at `maxCount`.
 * Of the messages of unknown outcome, reads the oldest, because the newest may have another attempt.
 */
export const waiting = (sql: SqlClient.SqlClient, limit: number) => {
  const of = (table: string, condition: string) =>
    bounded(sql, sql.literal(`FROM ${table} WHERE ${table}.project_id = projects.project_id AND ${condition}`))
  return sql<Waiting>`
    SELECT project_id AS "projectId", dead, unknown, disabled, paused, looked = ${maxCount}::int AS "hasMore"
    FROM projects, LATERAL (
      SELECT ${of("deliveries", isDead)} AS dead, ${of("webhooks", "NOT enabled")} AS disabled,
        ${of("campaigns", "status = 'paused'")} AS paused, messages.* FROM (
          SELECT count(*)::int AS looked, (count(*) FILTER (WHERE ${sql.literal(needsDecision)}))::int AS unknown FROM (
            SELECT * FROM messages WHERE messages.project_id = projects.project_id AND status = 'unknown'
            ORDER BY created_at, id LIMIT ${maxCount}::int
          ) messages
        ) messages OFFSET 0
    ) waiting
    WHERE dead + unknown + disabled + paused > 0 AND ${isAwake(sql, "project_id")}
    ORDER BY project_id LIMIT ${limit}::int`
}

/** Counts the enabled webhooks, up to `maxCount`, except those of projects at rest. */
export const countEndpoints = (sql: SqlClient.SqlClient) =>
  sql<{ readonly enabled: number }>`
    SELECT ${bounded(sql, sql`FROM webhooks WHERE enabled AND ${isAwake(sql, "project_id")}`)} AS enabled`
