/** The checks of `doctor` on what waits, who works and what is refused. They change nothing. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { slots } from "../../../cells/Replication.ts"
import { type MoveState, moveTexts } from "../../../platform/MoveState.ts"
import { cli, plural } from "../../../platform/Text.ts"
import { queueOf, readWorkState, type Trouble, troublesOf } from "../../../operators/Troubles.ts"
import { listRefused } from "../../../http/auth/RefusedRequests.ts"
import { listEnding, maxCount as maxEnding } from "../../../http/auth/EndingKeys.ts"
import { failed, failure, ok, warning } from "./Checks.ts"

const judge = (found: ReadonlyArray<Trouble>, detail: string) => {
  const advice = [...new Set(found.flatMap(({ advice, status }) => (status === "ok" ? [] : [advice])))].join(" ")
  if (advice === "") return ok(detail)
  return found.some(({ status }) => status === "failed") ? failed(detail, advice) : warning(detail, advice)
}

/** Checks that no endpoint fails, and that no delivery or message waits for an operator or for a worker. */
export const work = Effect.gen(function* () {
  const found = troublesOf(yield* readWorkState(yield* SqlClient.SqlClient)).filter(({ check }) => check === "work")
  return judge(found, found.map(({ what }) => what).join("; ") || "nothing waits for an operator")
}).pipe(Effect.catchCause(failure("Read the database's log: deliveries and messages can't be counted.")))

/** Checks that a worker runs, that none hangs, and that the deliveries that may be sent are sent. */
export const workers = Effect.gen(function* () {
  const state = yield* readWorkState(yield* SqlClient.SqlClient)
  const found = troublesOf(state).filter(({ check }) => check === "workers")
  const named = state.workers.map(
    ({ host, id, role, silentSeconds, version }) =>
      `${id} (${role}, ${version}, on ${host}; last sign ${silentSeconds?.toFixed(1) ?? "?"} s ago)`
  )
  const live = named.length === 0 ? [] : [`${plural(named.length, "worker", "workers")}: ${named.join(", ")}`]
  return judge(found, [...live, ...found.map(({ what }) => what), queueOf(state)].join("; "))
}).pipe(Effect.catchCause(failure("Read the database's log: workers and deliveries can't be read.")))

/** Names the keys with the most refused requests. That is a matter of their callers, so it is no failure. */
export const requests = Effect.gen(function* () {
  const refused = yield* listRefused(yield* SqlClient.SqlClient)
  const named = refused.map(
    ({ count, keyId, keyName, projectId, status }) =>
      `${count} × ${status} of ${keyName} (${keyId}, project ${projectId})`
  )
  return ok(`refused in the last day, until a minute ago: ${named.join(", ") || "none"}`)
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
  const marked = yield* sql<{ projectId: string; state: MoveState }>`
    SELECT project_id AS "projectId", move_state AS state FROM projects WHERE move_state IS NOT NULL
    ORDER BY project_id LIMIT 10`
  const named = found.map(
    ({ active, keeps, projectId, slot }) =>
      `${projectId === null ? `slot ${slot}` : `project ${projectId}`} (${active ? "copied now" : "not read"}, keeps ${Math.ceil(keeps / 1_000_000)} MB of the log)`
  )
  if (found.length === 0 && marked.length > 0) {
    const states = marked.map(({ projectId, state }) => `project ${projectId}: ${moveTexts[state]}`)
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
