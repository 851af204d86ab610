/** Comparison of the contenders: correct and equal answers, from the same statements. */
import type { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { isDeepStrictEqual } from "node:util"
import { type Answer, type Case, ownColumns, type Request, requestsOf } from "./Case.ts"
import { cases, type CaseName, faultsOf } from "./Cases.ts"
import { decodeReceipt, listRequest, nextCursor, replayRequests } from "./cases/Clients.ts"
import { makeCursors } from "./fastify/Cursor.ts"
import { clientCount, deepPlace, projectId } from "./Seed.ts"
import { BenchFailed, type Running, secretKey } from "../Stage.ts"

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
  const faults = faultsOf(of, request, answer)
  if (faults.length === 0) return answer
  const message = `${contender.name}: ${request.method} ${request.path}: ${faults.join("; ")}`
  return yield* new BenchFailed({ message })
})

/** Returns the row that a command wrote, without the columns that differ between equal commands. */
const rowOf = (sql: PgClient.PgClient, table: string, { body }: Answer) =>
  sql<{ readonly row: unknown }>`
    SELECT to_jsonb(made) - ${ownColumns}::text[] AS row FROM ${sql(table)} AS made
    WHERE project_id = ${projectId} AND id = ${decodeReceipt(body).resourceId}`.pipe(
    Effect.flatMap(([made]) =>
      made === undefined
        ? Effect.fail(new BenchFailed({ message: `There is no such row in ${table}` }))
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
  const bodies: Array<unknown> = []
  const rows: Array<unknown> = []
  for (const [i, contender] of contenders.entries()) {
    const batch = `compared_${i}`
    yield* of.prepare?.(sql, batch, 1) ?? Effect.void
    const request = requestsOf(of.traffic({ batch, cursors }, 0))()
    const answer = yield* sample(contender, token, request, of)
    if (of.writes === undefined) {
      bodies.push(answer.body)
    } else {
      rows.push(yield* rowOf(sql, of.writes, answer))
      for (const again of contenders) {
        const repeated = yield* sample(again, token, request, { ...of, replayed: true })
        yield* differ(name, "an answer and its repeat", [answer.body, repeated.body])
      }
    }
  }
  yield* differ(name, "the answers", bodies)
  yield* differ(name, "the rows", rows)
})

/** Returns a cursor with 100,000 records before it, and enough pages after it. */
const deepCursor = () =>
  makeCursors(secretKey).encode([projectId, "listClients", { status: "all" }], deepPlace(clientCount))

/** Reads pages of the list from a cursor on. The contenders alternate, so each continues from a cursor of the other. */
const walk = Effect.fnUntraced(function* (contenders: Contenders, token: string, from: string | null) {
  const cursors: Array<string | null> = [from]
  for (let i = 0; cursors.length < pageCount; i++) {
    const request = listRequest(cursors.at(-1) ?? null)
    const page = yield* sample(contenders[i % 2 === 0 ? 0 : 1], token, request, cases.list)
    cursors.push(nextCursor(page.body))
  }
  return cursors
})

/**
 * Compares the contenders in the measured cases, before the first round; each must replay the answers of the other.
 * Returns the cursors of a case's pages.
 */
export const compare = Effect.fnUntraced(function* (
  contenders: Contenders,
  token: string,
  sql: PgClient.PgClient,
  names: ReadonlyArray<CaseName>
) {
  if (names.includes("replay")) {
    for (const [i, request] of replayRequests.entries()) {
      yield* sample(contenders[i % 2 === 0 ? 0 : 1], token, request, cases.create)
    }
  }
  const none: ReadonlyArray<string | null> = [null]
  const first = names.includes("list") ? yield* walk(contenders, token, null) : none
  const deep = names.includes("list-deep") ? yield* walk(contenders, token, deepCursor()) : none
  for (const name of names) {
    const cursors = name === "list-deep" ? deep : first
    const pages = name === "list" ? [cursors.slice(0, 1), cursors.slice(1)] : [cursors]
    for (const page of pages) {
      yield* compareCase(contenders, token, sql, name, page)
    }
  }
  return (name: CaseName) => (name === "list-deep" ? deep : first)
})
