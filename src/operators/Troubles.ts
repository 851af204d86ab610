/**
 * What is wrong with the work in the background, and which records wait for an operator: read and worded once, for the overview of the
 * console and for `doctor`.
 */
import { Effect, Record } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import { isDead } from "../webhooks/delivery/DeliveryList.ts"
import { failingMax, listDue, listFailing, overdueAfter } from "../webhooks/WebhookList.ts"
import { needsDecision } from "../messaging/MessageControl.ts"
import { isAwake } from "../platform/MoveState.ts"
import { cli, duration, plural } from "../platform/Text.ts"
import { listWorkers } from "../work/Worker.ts"

/** Maximum number of endpoints in each list. */
export const maxEndpoints = 20

export const readWorkState = (sql: SqlClient.SqlClient) =>
  Effect.all({
    due: listDue(sql, maxEndpoints),
    workers: listWorkers(sql),
    enabled: Effect.map(countEndpoints(sql), ([row]) => row?.enabled ?? 0),
    failing: listFailing(sql, maxEndpoints),
    projects: findWaiting(sql),
    abandoned: Effect.map(countAbandoned(sql), ([row]) => row?.abandoned ?? 0)
  })
export type WorkState = Effect.Success<ReturnType<typeof readWorkState>>

export interface Trouble {
  /** The check of `doctor` that reports it, and the status of the report. */
  readonly check: "workers" | "work"
  readonly status: "ok" | "warning" | "failed"
  readonly what: string
  readonly advice: string
}

/** The commands that list what waits in a project, in the order in which it is reported. */
const lists = {
  disabled: (project: string) => `Run \`${cli} webhooks list --project ${project}\`.`,
  dead: (project: string) => `Run \`${cli} deliveries list --project ${project} --status dead\`.`,
  unknown: (project: string) => `Run \`${cli} messages list --project ${project} --status unknown\`.`,
  paused: (project: string) => `Run \`${cli} campaigns list --project ${project} --status paused\`.`
}

/** Says how long the oldest due delivery has waited. */
export const queueOf = ({ due: [first] }: WorkState) =>
  first !== undefined && first.oldestSeconds >= overdueAfter
    ? `the oldest due delivery has waited ${duration(first.oldestSeconds)}`
    : nothing

const nothing = "nothing is overdue"

const when = (holds: boolean, trouble: Trouble): ReadonlyArray<Trouble> => (holds ? [trouble] : [])

/** Says what is wrong, and which counts are only minimums. While nothing is overdue, no worker is needed. */
export const troublesOf = (state: WorkState): ReadonlyArray<Trouble> => {
  const { abandoned, due, enabled, failing, projects, workers } = state
  const { behind = 0, projectId: late = "" } = due[0] ?? {}
  const hung = workers.filter(({ isHung }) => isHung)
  return [
    ...when(hung.length === workers.length, {
      check: "workers",
      status: queueOf(state) === nothing ? "ok" : "failed",
      what: "no worker runs: nothing is sent in the background",
      advice: "Start a process with --role worker or --role all."
    }),
    ...when(hung.length > 0, {
      check: "workers",
      status: "failed",
      what: plural(hung.length, "worker hangs", "workers hang"),
      advice: `Restart ${hung.map(({ host, id }) => `${id} on ${host}`).join(", ")}: it gives no sign.`
    }),
    ...workers.flatMap(({ aheadSeconds, id }) =>
      when(Math.abs(aheadSeconds) > 5, {
        check: "workers",
        status: "warning",
        what: `the clock of worker ${id} is ${duration(Math.abs(aheadSeconds))} ${aheadSeconds > 0 ? "ahead of" : "behind"} the database's`,
        advice: "Synchronize both clocks (NTP)."
      })
    ),
    ...when(behind > 0, {
      check: "workers",
      status: "warning",
      what: plural(behind, "endpoint is behind", "endpoints are behind"),
      advice: `Run \`${cli} webhooks list --project ${late}\`: an endpoint may be slow. Else start more workers.`
    }),
    ...when(abandoned > 0, {
      check: "work",
      status: "failed",
      what: `${plural(abandoned, "attempt was", "attempts were")} left by a process that died`,
      advice: "Start a process with --role worker."
    }),
    ...failing.slice(0, 1).map(({ failingSeconds, projectId, total }): Trouble => ({
      check: "work",
      status: "warning",
      what: `${total === failingMax ? "at least " : ""}${total} of ${enabled === maxCount ? "at least " : ""}${plural(enabled, "endpoint", "endpoints")} ${total === 1 ? "fails," : "fail, the longest"} for ${duration(failingSeconds)}`,
      advice: `Run \`${cli} webhooks list --project ${projectId}\`.`
    })),
    ...Record.keys(lists).flatMap((kind) =>
      inWords(projects, kind).map((what): Trouble => {
        const first = projects.find((project) => project[kind] > 0)
        return { check: "work", status: "warning", what, advice: lists[kind](first?.projectId ?? "") }
      })
    )
  ]
}

/** Number of projects that are shown. One more is read, so that it is known whether there are more. */
export const maxProjects = 20

/** Maximum of each count, so that a long backlog is not read to its end. */
export const maxCount = 10_000

export interface WaitingRecords extends Readonly<Record<keyof typeof words, number>> {
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

/** `created_at > '-infinity'` is always true. It repeats the condition of the index `campaigns_by_status`, so that the index can be used. */
const isPaused = "status = 'paused' AND created_at > '-infinity'"

/**
 * Finds the first `maxProjects` projects, and one more, with a record that waits for an operator. Begins with the records that wait, as
 * most projects have none. Counts end at `maxCount`. Of the messages of unknown outcome, reads the oldest, because a newer one may
 * still get another attempt.
 */
export const findWaiting = (sql: SqlClient.SqlClient) => {
  const of = (table: string, condition: string) =>
    bounded(sql, table, sql.literal(`${table}.project_id = projects.project_id AND ${condition}`))
  const first = (table: string, condition: string) =>
    sql`(${projectsWith(sql, table, condition)} LIMIT ${maxProjects + 1}::int)`
  return sql<WaitingRecords>`
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
export const inWords = (projects: ReadonlyArray<WaitingRecords>, kind: keyof typeof words): ReadonlyArray<string> => {
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
