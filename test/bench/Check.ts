/** Whether the contenders do the same: right answers, equal ones, from the same statements. */
import type { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { isDeepStrictEqual } from "node:util"
import {
  type Answer,
  type Case,
  cases,
  codeOf,
  create,
  faultsOf,
  get,
  list,
  nextCursor,
  pageCount,
  replay,
  replayCount,
  resourceId,
  type Request
} from "./Cases.ts"
import { BenchFailed, type Contender } from "./Stage.ts"

/** Sends one request. */
export const ask = ({ url }: Contender, token: string, { path, ...request }: Request) =>
  Effect.tryPromise({
    try: async (signal): Promise<Answer> => {
      const headers = { ...request.headers, authorization: `Bearer ${token}` }
      const response = await fetch(url + path, { ...request, headers, signal })
      return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.json() }
    },
    catch: (cause) => new BenchFailed({ message: `No answer: ${String(cause)}` })
  })

/** Sends one request of a case and fails unless its answer is right. */
export const sample = Effect.fnUntraced(function* (
  contender: Contender,
  token: string,
  name: Case,
  request: Request = examples[name]()
) {
  const answer = yield* ask(contender, token, request)
  const faults = faultsOf(name, answer)
  if (faults.length > 0) return yield* new BenchFailed({ message: `${contender.name}: ${faults.join("; ")}` })
  return answer
})

/** Requests that both refuse, with the status and the code that the contract gives them. */
const refusals = (token: string): ReadonlyArray<[token: string, request: Request, status: number, code: string]> => {
  const { body = "", ...command } = create()
  const other = { ...replay(0), body: JSON.stringify({ displayName: "Somebody else" }) }
  return [
    ["dk_0", get(0), 401, "credential_invalid"],
    [token, { ...get(0), path: `${get(0).path}0` }, 404, "client_not_found"],
    [token, list("AAAA"), 400, "cursor_invalid"],
    [token, { ...list(null), path: `${list(null).path}&limit=2` }, 400, "validation_failed"],
    [token, { ...command, body: body.replace("displayName", "display") }, 400, "validation_failed"],
    [token, { ...command, body: body.replace("+", "") }, 400, "validation_failed"],
    [token, { ...command, body: body.slice(1) }, 400, "malformed_json"],
    [token, other, 409, "idempotency_key_reused"]
  ]
}

const refuse = Effect.fnUntraced(function* (contender: Contender, token: string) {
  for (const [credential, request, status, code] of refusals(token)) {
    const answer = yield* ask(contender, credential, request)
    if (answer.status !== status || !isDeepStrictEqual(codeOf(answer), code)) {
      return yield* new BenchFailed({ message: `${contender.name}: ${request.path} gave ${JSON.stringify(answer)}` })
    }
  }
})

/** A client that was created is there. */
const find = Effect.fnUntraced(function* (contender: Contender, token: string, created: Answer) {
  const request = get(0)
  const path = request.path.replace(/[^/]+$/, resourceId(created))
  yield* sample(contender, token, "get", { ...request, path })
})

const examples: Record<Case, () => Request> = {
  get: () => get(4321),
  list: () => list(null),
  create,
  replay: () => replay(0)
}

/** The statement that makes out a case, among those that a server sends. */
const marks: Record<Case, string> = {
  get: "%FROM clients%",
  list: "%FROM clients%",
  create: "%INTO clients%",
  replay: "%FROM idempotency_keys%"
}

/** The text of a statement, whatever its line breaks and the numbers of its parameters. */
const normal = (text: string) =>
  text
    .replace(/\$[0-9]+/g, "$")
    .replace(/\s+/g, " ")
    .replace(/ ?([(),]) ?/g, "$1")
    .trim()

const lastStatement = (sql: PgClient.PgClient, name: Case) =>
  sql<{ readonly query: string }>`
    SELECT query FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND query LIKE ${marks[name]} ORDER BY query_start DESC LIMIT 1`.pipe(
    Effect.map((rows) => normal(rows[0]?.query ?? ""))
  )

/**
 * Compares the contenders before the first round. Each replays what the other created and goes on where the other's
 * cursor ends, answers must be equal, and wrong requests are refused alike. That their statements differ is a note only:
 * a checkout may do the same with others.
 */
export const compare = Effect.fnUntraced(function* (
  contenders: readonly [Contender, Contender],
  token: string,
  sql: PgClient.PgClient
) {
  for (let i = 0; i < replayCount; i++) {
    yield* sample(contenders[i % 2 === 0 ? 0 : 1], token, "create", replay(i))
  }
  for (const contender of contenders) {
    yield* refuse(contender, token)
    yield* find(contender, token, yield* sample(contender, token, "create"))
  }

  const [one, other] = contenders
  const notes: Array<string> = []
  for (const name of cases) {
    const answer = yield* sample(one, token, name)
    const statement = yield* lastStatement(sql, name)
    const same = yield* sample(other, token, name)
    if (name !== "create" && !isDeepStrictEqual(answer.body, same.body)) {
      return yield* new BenchFailed({ message: `${name}: ${one.name} and ${other.name} answer differently` })
    }
    if ((yield* lastStatement(sql, name)) !== statement) {
      notes.push(`${name}: the statements of ${one.name} and ${other.name} differ`)
    }
  }

  const second = list(nextCursor(yield* sample(one, token, "list")))
  yield* sample(one, token, "list", second)
  const statement = yield* lastStatement(sql, "list")
  yield* sample(other, token, "list", second)
  if ((yield* lastStatement(sql, "list")) !== statement) notes.push("list: the statements differ after the first page")

  const cursors: Array<string | null> = [null]
  for (let i = 0; cursors.length < pageCount; i++) {
    const page = yield* sample(contenders[i % 2 === 0 ? 0 : 1], token, "list", list(cursors.at(-1) ?? null))
    cursors.push(nextCursor(page))
  }
  return { cursors, notes }
})
