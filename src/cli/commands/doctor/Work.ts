/** The checks of `doctor` on what waits, who works and what is refused. They change nothing. */
import { Effect, Record } from "effect"
import { SqlClient } from "effect/sql"
import { slots } from "../../../cells/Replication.ts"
import { failingMax, listDue, listFailing, overdueAfter } from "../../../integrations/endpoints/WebhookList.ts"
import { listWorkers } from "../../../work/Worker.ts"
import { progressOf, type State } from "../../../platform/Moves.ts"
import { plural } from "../../../platform/Text.ts"
import { countAbandoned, inWords, waiting } from "../../../project/Waiting.ts"
import { listRefused } from "../../../http/auth/RefusedRequests.ts"
import { listEnding, maxCount as maxEnding } from "../../../http/auth/EndingKeys.ts"
import { cli } from "../../Output.ts"
import { failed, failure, ok, warning } from "./Checks.ts"

/** The commands that list what waits in a project. */
const lists = {
  dead: (project: string) => `\`${cli} deliveries list --project ${project} --status dead\``,
  unknown: (project: string) => `\`${cli} messages list --project ${project} --status unknown\``
}

/** Checks that no endpoint fails, and that no delivery or message waits for an operator or for a worker. */
export const work = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const projects = yield* waiting(sql)
  const failing = yield* listFailing(sql, 1)
  const [{ abandoned } = { abandoned: 0 }] = yield* countAbandoned(sql)
  if (abandoned > 0) {
    return failed(
      `${plural(abandoned, "attempt was", "attempts were")} left by a process that died`,
      "Start a process with --role worker."
    )
  }
  const found = [
    ...failing.map(({ projectId, total }) => ({
      what: `${total === failingMax ? "at least " : ""}${plural(total, "endpoint fails", "endpoints fail")}`,
      command: `\`${cli} webhooks list --project ${projectId}\``
    })),
    ...Record.keys(lists).flatMap((kind) => {
      const first = projects.find((project) => project[kind] > 0)
      return first === undefined
        ? []
        : inWords(projects, kind).map((what) => ({ what, command: lists[kind](first.projectId) }))
    })
  ]
  const commands = found.map(({ command }) => command).join(" and ")
  return found.length === 0
    ? ok("nothing waits for an operator")
    : warning(found.map(({ what }) => what).join(", "), `Run ${commands}; other projects may have some, too.`)
}).pipe(Effect.catchCause(failure("Read the database's log: deliveries and messages can't be counted.")))

/** Checks that a worker runs, that none hangs, and that the deliveries that may be sent are sent. */
export const workers = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const live = yield* listWorkers(sql)
  const [first] = yield* listDue(sql, 1)
  const { behind = 0, oldestSeconds = 0 } = first ?? {}
  const isOverdue = oldestSeconds >= overdueAfter
  const queue = isOverdue ? `the oldest due delivery has waited ${Math.floor(oldestSeconds)} s` : "nothing is overdue"
  const start = "Start a process with --role worker or --role all."
  if (live.length === 0) {
    return isOverdue ? failed(`no worker runs; ${queue}`, start) : ok(`no worker runs now; ${queue}`)
  }
  const named = live.map(
    ({ host, id, role, silentSeconds, version }) =>
      `${id} (${role}, ${version}, on ${host}; last sign ${silentSeconds.toFixed(1)} s ago)`
  )
  const found = `${plural(live.length, "worker", "workers")}: ${named.join(", ")}; ${queue}`
  const hung = live.filter(({ isHung }) => isHung)
  if (hung.length > 0) {
    return failed(found, `Restart ${hung.map(({ host, id }) => `${id} on ${host}`).join(", ")}: it gives no sign.`)
  }
  return behind === 0 || first === undefined
    ? ok(found)
    : warning(
        `${found}; ${plural(behind, "endpoint is", "endpoints are")} behind, though no answer asks for a pause`,
        `Run \`${cli} webhooks list --project ${first.projectId}\`: an endpoint may be slow. Else start more workers.`
      )
}).pipe(Effect.catchCause(failure("Read the database's log: workers and deliveries can't be read.")))

/** Names the keys with the most refused requests. That is a matter of their callers, so it is no failure. */
export const requests = Effect.gen(function* () {
  const refused = yield* listRefused(yield* SqlClient.SqlClient)
  const named = refused.map(
    ({ count, keyId, keyName, projectId, status }) =>
      `${count} × ${status} of ${keyName} (${keyId}, project ${projectId})`
  )
  return ok(named.length === 0 ? "none was refused in the last day" : `refused in the last day: ${named.join(", ")}`)
}).pipe(Effect.catchCause(failure("Read the database's log: refused requests can't be read.")))

/** Checks that no key in use ends soon. */
export const tokens = Effect.gen(function* () {
  const ending = yield* listEnding(yield* SqlClient.SqlClient)
  const [first] = ending
  if (first === undefined) return ok("no key in use ends within 14 days")
  const { days, keyId, name, projectId } = first
  const least = ending.length === maxEnding ? "at least " : ""
  return warning(
    `${least}${plural(ending.length, "key", "keys")} in use end within 14 days: the first within ${plural(days, "day", "days")}, ${name} of project ${projectId}`,
    `Run \`${cli} token rotate --key ${keyId}\` and give the new token to its caller; \`${cli} token list --project ${projectId}\` shows others.`
  )
}).pipe(Effect.catchCause(failure("Read the database's log: keys can't be read.")))

/** Checks that no project is being moved, and that no move has left a slot, for which PostgreSQL keeps its log until the disk is full. */
export const moves = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const found = yield* slots(sql)
  const marked = yield* sql<{ projectId: string; state: State }>`
    SELECT project_id AS "projectId", move_state AS state FROM projects WHERE move_state IS NOT NULL
    ORDER BY project_id LIMIT 10`
  const named = found.map(
    ({ active, keeps, projectId, slot }) =>
      `${projectId === null ? `slot ${slot}` : `project ${projectId}`} (${active ? "copied now" : "not read"}, keeps ${Math.ceil(keeps / 1_000_000)} MB of the log)`
  )
  if (found.length === 0 && marked.length > 0) {
    const states = marked.map(({ projectId, state }) => `project ${projectId}: ${progressOf[state]}`)
    return warning(states.join(" "), "Run `project move` of each again, once the router leads to the other cell.")
  }
  if (found.length === 0) return ok("no project is being moved")
  if (found.every(({ active }) => active))
    return warning(`moving: ${named.join(", ")}`, "Nothing, while the moves run.")
  return failed(
    `left by a move: ${named.join(", ")}`,
    `Run the move again, or \`project move --abort\`; drop a slot without a project by pg_drop_replication_slot.`
  )
}).pipe(Effect.catchCause(failure("Read the database's log: the replication slots can't be read.")))
