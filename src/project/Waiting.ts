/** Counts the records that wait for an operator, in each project and in all projects. */
import type { SqlClient, Statement } from "effect/sql"
import { isDead } from "../integrations/deliveries/DeliveryList.ts"
import { needsDecision } from "../messaging/Messages.ts"
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
 * Finds the first `limit` projects with a record that waits for an operator. Leaves out projects whose background work a move
 * has stopped (`isAwake`), because another database may serve them. Counts end at `maxCount`. Of the messages of unknown
 * outcome, reads the oldest, because a newer one may still get another attempt.
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

interface Stuck {
  readonly kind: "dead" | "unsettled" | "abandoned"
  readonly count: number
  /** A project with records of this kind; null if the count is 0. */
  readonly project: string | null
}

/**
 * Counts dead deliveries, messages that need a decision, and attempts whose lease ended more than a minute ago without a
 * takeover. Leaves out projects whose background work a move has stopped. Counts end at `maxCount`.
 */
export const countStuck = (sql: SqlClient.SqlClient) => {
  const count = (kind: Stuck["kind"], records: string) => sql`
    SELECT ${kind}::text AS kind, count(*)::int AS count, min(project_id) AS project FROM (
      SELECT project_id FROM ${sql.literal(records)} AND ${isAwake(sql, "project_id")} LIMIT ${maxCount}::int
    ) found`
  const isLate = (column: string) => `${column} < now() - interval '1 minute'`
  return sql<Stuck>`
    ${count("dead", `deliveries WHERE ${isDead} AND status = 'dead'`)} UNION ALL
    ${count("unsettled", `messages WHERE ${needsDecision}`)} UNION ALL
    ${count("abandoned", `deliveries WHERE finished_at IS NULL AND status = 'delivering' AND ${isLate("leased_until")}`)} UNION ALL
    ${count("abandoned", `messages WHERE attempting AND ${isLate("available_at")}`)}`
}

/** Counts the enabled webhooks, up to `maxCount`, except in projects whose background work a move has stopped. */
export const countEndpoints = (sql: SqlClient.SqlClient) =>
  sql<{ readonly enabled: number }>`
    SELECT ${bounded(sql, sql`FROM webhooks WHERE enabled AND ${isAwake(sql, "project_id")}`)} AS enabled`
