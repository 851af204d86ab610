/** What is wrong with the work in the background: read and worded once, for the overview of the console and for `doctor`. */
import { Effect, Record } from "effect"
import type { SqlClient } from "effect/sql"
import { failingMax, listDue, listFailing, overdueAfter } from "../webhooks/WebhookList.ts"
import { cli, duration, plural } from "../platform/Text.ts"
import { listWorkers } from "../work/Worker.ts"
import { countAbandoned, countEndpoints, inWords, maxCount, waiting } from "./Waiting.ts"

/** Maximum number of endpoints in each list. */
export const maxEndpoints = 20

export const readState = (sql: SqlClient.SqlClient) =>
  Effect.all({
    due: listDue(sql, maxEndpoints),
    workers: listWorkers(sql),
    enabled: Effect.map(countEndpoints(sql), ([row]) => row?.enabled ?? 0),
    failing: listFailing(sql, maxEndpoints),
    projects: waiting(sql),
    abandoned: Effect.map(countAbandoned(sql), ([row]) => row?.abandoned ?? 0)
  })
export type State = Effect.Success<ReturnType<typeof readState>>

export interface Trouble {
  /** The check of `doctor` that reports it, and how. */
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
export const queueOf = ({ due: [first] }: State) =>
  first !== undefined && first.oldestSeconds >= overdueAfter
    ? `the oldest due delivery has waited ${duration(first.oldestSeconds)}`
    : nothing

const nothing = "nothing is overdue"

const when = (holds: boolean, trouble: Trouble): ReadonlyArray<Trouble> => (holds ? [trouble] : [])

/** Says what is wrong, and which counts are only minimums. While nothing is overdue, no worker is needed. */
export const troublesOf = (state: State): ReadonlyArray<Trouble> => {
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
