/** Comparison of the contenders: correct and equal answers, from the same statements. */
import type { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { isDeepStrictEqual } from "node:util"
import { type Answer, type Case, type Request, requestsOf } from "./Case.ts"
import { cases, type CaseName, faultsOf } from "./Cases.ts"
import { decodeReceipt, listRequest, nextCursor, replayRequests } from "./cases/Clients.ts"
import { projectId } from "./Seed.ts"
import { BenchFailed, type Running } from "../Stage.ts"

/** Number of pages that the list reads repeatedly. */
const pageCount = 20

type Contenders = readonly [Running, Running]

const ask = ({ url }: Running, token: string, { path, ...request }: Request) =>
  Effect.tryPromise({
    try: async (signal): Promise<Answer> => {
      const headers = { ...request.headers, authorization: `Bearer ${token}` }
      const response = await fetch(url + path, { ...request, headers, signal })
      return { status: response.status, headers: Object.fromEntries(response.headers), body: await response.json() }
    },
    catch: (cause) => new BenchFailed({ message: `No answer: ${String(cause)}` })
  })

/** Sends one request of a case; fails unless its answer is correct. Returns the answer. */
export const sample = Effect.fnUntraced(function* (contender: Running, token: string, request: Request, of: Case) {
  const answer = yield* ask(contender, token, request)
  const faults = faultsOf(of, answer)
  if (faults.length === 0) return answer
  const message = `${contender.name}: ${request.method} ${request.path}: ${faults.join("; ")}`
  return yield* new BenchFailed({ message })
})

/** Returns the row that a command wrote, without the columns that differ between equal commands. */
const rowOf = (sql: PgClient.PgClient, differing: ReadonlyArray<string>, { body }: Answer) =>
  sql<{ readonly row: unknown }>`
    SELECT to_jsonb(made) - ${differing}::text[] AS row FROM clients AS made
    WHERE project_id = ${projectId} AND id = ${decodeReceipt(body).resourceId}`.pipe(
    Effect.flatMap(([made]) =>
      made === undefined
        ? Effect.fail(new BenchFailed({ message: `There is no such client` }))
        : Effect.succeed(made.row)
    )
  )

const differ = (name: CaseName, what: string, values: ReadonlyArray<unknown>) =>
  isDeepStrictEqual(values[0], values[1])
    ? Effect.void
    : new BenchFailed({
        message: `${name}: ${what} differ: ${values.map((value) => JSON.stringify(value)).join(", ")}`
      })

/**
 * Compares the answers of one case. Equal reads must get equal answers. Equal commands must leave equal rows, and each
 * contender must replay the answer of the other.
 */
const compareCase = Effect.fnUntraced(function* (
  contenders: Contenders,
  token: string,
  sql: PgClient.PgClient,
  name: CaseName,
  cursors: ReadonlyArray<string | null>
) {
  const of = cases[name]
  const found: Array<unknown> = []
  for (const contender of contenders) {
    const request = requestsOf(of.traffic(cursors))()
    const answer = yield* sample(contender, token, request, of)
    found.push(of.differing === undefined ? answer.body : yield* rowOf(sql, of.differing, answer))
    for (const again of of.differing === undefined ? [] : contenders) {
      const repeated = yield* sample(again, token, request, { ...of, replayed: true })
      yield* differ(name, "an answer and its repeat", [answer.body, repeated.body])
    }
  }
  yield* differ(name, "the answers or the rows", found)
})

/**
 * Compares the contenders in the measured cases, before the first round. Returns the cursors of the pages of the list: the
 * contenders read them in turn, so each continues from a cursor of the other.
 */
export const compare = Effect.fnUntraced(function* (
  contenders: Contenders,
  token: string,
  sql: PgClient.PgClient,
  names: ReadonlyArray<CaseName>
) {
  for (const [i, request] of replayRequests.entries()) {
    yield* sample(contenders[i % 2 === 0 ? 0 : 1], token, request, cases.create)
  }
  const cursors: Array<string | null> = [null]
  for (let i = 0; cursors.length < pageCount; i++) {
    const request = listRequest(cursors.at(-1) ?? null)
    const page = yield* sample(contenders[i % 2 === 0 ? 0 : 1], token, request, cases.list)
    cursors.push(nextCursor(page.body))
  }
  for (const name of names) yield* compareCase(contenders, token, sql, name, cursors.slice(1))
  return cursors
})
