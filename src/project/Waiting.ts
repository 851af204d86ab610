/** Counts the records that wait for an operator, in each project and in all projects. */
import type { SqlClient, Statement } from "effect/sql"
import { isDead } from "../webhooks/delivery/DeliveryList.ts"
import { needsDecision } from "../messaging/Messages.ts"
import { isAwake } from "../platform/Moves.ts"
import { plural } from "../platform/Text.ts"

/** Number of projects that are shown. One more is read, so that it is known whether there are more. */
export const maxProjects = 20

/** Maximum of each count, so that a long backlog is not read to its end. */
export const maxCount = 10_000

export interface Waiting extends Readonly<Record<keyof typeof words, number>> {
  readonly projectId: string
  /** Whether `maxCount` messages of unknown outcome were read, so that there may be more. */
  readonly hasMore: boolean
}

const bounded = (sql: SqlClient.SqlClient, table: string, condition: Statement.Fragment) =>
  sql`(SELECT count(*)::int FROM (SELECT FROM ${sql(table)} WHERE ${condition} LIMIT ${maxCount}::int) counted)`

/**
 * A query of the projects with a record that meets a condition, in the order of their ids. The next project is looked up by an index, so
 * no further record of a project is read. Leaves out projects whose background work a move has stopped (`isAwake`), because another
 * database may serve them.
 */
const projectsWith = (sql: SqlClient.SqlClient, table: string, condition: string) => {
  const next = (after: string) => sql`
    SELECT project_id FROM ${sql(table)} WHERE ${sql.literal(condition + after)} ORDER BY project_id LIMIT 1`
  return sql`
    WITH RECURSIVE found AS (
      (${next("")})
      UNION ALL
      SELECT next.project_id FROM found, LATERAL (${next(` AND ${table}.project_id > found.project_id`)}) AS next
    )
    SELECT project_id FROM found WHERE ${isAwake(sql, "project_id")}`
}

/** States what the index `campaigns_by_status` states, though it is always true. */
const isPaused = "status = 'paused' AND created_at > '-infinity'"

/**
 * Finds the first `maxProjects` projects, and one more, with a record that waits for an operator. Begins with the records that wait, as
 * most projects have none. Counts end at `maxCount`. Of the messages of unknown outcome, reads the oldest, because a newer one may
 * still get another attempt.
 */
export const waiting = (sql: SqlClient.SqlClient) => {
  const of = (table: string, condition: string) =>
    bounded(sql, table, sql.literal(`${table}.project_id = projects.project_id AND ${condition}`))
  const first = (table: string, condition: string) =>
    sql`(${projectsWith(sql, table, condition)} LIMIT ${maxProjects + 1}::int)`
  return sql<Waiting>`
    SELECT project_id AS "projectId", dead, unknown, disabled, paused, looked = ${maxCount}::int AS "hasMore"
    FROM (
      ${first("deliveries", isDead)} UNION ${first("webhooks", "NOT enabled")} UNION ${first("campaigns", isPaused)}
      -- All of them, because not every message of unknown outcome needs a decision.
      UNION (${projectsWith(sql, "messages", "status = 'unknown'")})
      ORDER BY project_id OFFSET 0
    ) projects, LATERAL (
      SELECT ${of("deliveries", isDead)} AS dead, ${of("webhooks", "NOT enabled")} AS disabled,
        ${of("campaigns", isPaused)} AS paused, messages.* FROM (
          SELECT count(*)::int AS looked, (count(*) FILTER (WHERE ${sql.literal(needsDecision)}))::int AS unknown FROM (
            SELECT * FROM messages WHERE messages.project_id = projects.project_id AND status = 'unknown'
            ORDER BY created_at, id LIMIT ${maxCount}::int
          ) messages
        ) messages OFFSET 0
    ) waiting
    WHERE dead + unknown + disabled + paused > 0
    ORDER BY project_id LIMIT ${maxProjects + 1}::int`
}

const words = {
  disabled: ["webhook is disabled", "webhooks are disabled"],
  dead: ["delivery is dead", "deliveries are dead"],
  unknown: ["message needs a decision", "messages need a decision"],
  paused: ["campaign is paused", "campaigns are paused"]
} as const

/** Says how many records of a kind wait in these projects, or at least how many. Returns nothing if none waits. */
export const inWords = (projects: ReadonlyArray<Waiting>, kind: keyof typeof words): ReadonlyArray<string> => {
  const sum = projects.reduce((sum, project) => sum + project[kind], 0)
  const isPartial =
    projects.length > maxProjects ||
    projects.some((project) => project[kind] === maxCount || (kind === "unknown" && project.hasMore))
  const [one, many] = words[kind]
  return sum === 0 ? [] : [`${isPartial ? "at least " : ""}${plural(sum, one, many)}`]
}

/** Counts the attempts whose lease ended more than a minute ago without a takeover, up to `maxCount` of each kind. */
export const countAbandoned = (sql: SqlClient.SqlClient) => {
  const of = (table: string, condition: string) =>
    bounded(sql, table, sql`${sql.literal(condition)} < now() - interval '1 minute' AND ${isAwake(sql, "project_id")}`)
  return sql<{ readonly abandoned: number }>`
    SELECT ${of("deliveries", "finished_at IS NULL AND status = 'delivering' AND leased_until")} +
      ${of("messages", "attempting AND available_at")} AS abandoned`
}

/** Counts the enabled webhooks, up to `maxCount`, except in projects whose background work a move has stopped. */
export const countEndpoints = (sql: SqlClient.SqlClient) =>
  sql<{ readonly enabled: number }>`
    SELECT ${bounded(sql, "webhooks", sql`enabled AND ${isAwake(sql, "project_id")}`)} AS enabled`
