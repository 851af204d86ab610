/** Comparison of the contenders: correct and equal answers, from the same statements. */
import type { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { isDeepStrictEqual } from "node:util"
import { type Case, type CaseName, cases, type Request, requestsOf } from "./Cases.ts"
import { decodePage, decodeReceipt, listRequest, replayRequests } from "./Cases.ts"
import { projectId } from "./Seed.ts"
import { BenchFailed, type Running } from "../Stage.ts"

/** Number of pages that the list reads repeatedly. */
const pageCount = 20

/** Sends a request; fails unless there is an answer. */
export const ask = ({ url }: Running, token: string, { path, ...request }: Request) =>
  Effect.tryPromise({
    try: async (signal) => {
      const headers = { ...request.headers, authorization: `Bearer ${token}` }
      const response = await fetch(url + path, { ...request, headers, signal })
      const body: unknown = await response.json()
      return { status: response.status, headers: response.headers, body }
    },
    catch: (cause) => new BenchFailed({ message: `No answer: ${String(cause)}` })
  })

/** Sends one request of a case; fails unless its answer is correct. Returns the body of the answer. */
export const sample = Effect.fnUntraced(function* (contender: Running, token: string, request: Request, of: Case) {
  const { body, headers, status } = yield* ask(contender, token, request)
  const faults: Array<string> = []
  const expect = (what: string, is: unknown, wanted: unknown) => {
    if (is !== wanted) faults.push(`${what} is ${JSON.stringify(is)}, not ${JSON.stringify(wanted)}`)
  }
  expect("status", status, of.status)
  expect("content-type", headers.get("content-type")?.split(";")[0], "application/json")
  expect(
    "ratelimit-policy",
    headers.get("ratelimit-policy")?.split(";")[0],
    request.method === "GET" ? `"read"` : `"write"`
  )
  expect("ratelimit", headers.has("ratelimit"), true)
  expect("x-request-id", headers.get("x-request-id")?.length, 36)
  expect("link", headers.has("link"), of === cases.list)
  expect("etag of its form", of.etag.test(headers.get("etag") ?? ""), true)
  expect("idempotent-replayed", headers.get("idempotent-replayed"), of.replayed === true ? "true" : null)
  try {
    of.check(body)
  } catch (error) {
    faults.push(String(error))
  }
  if (faults.length === 0) return body
  const message = `${contender.name}: ${request.method} ${request.path}: ${faults.join("; ")}`
  return yield* new BenchFailed({ message })
})

/** Returns the row that a command wrote, without the columns that differ between equal commands. */
const rowOf = (sql: PgClient.PgClient, differing: ReadonlyArray<string>, body: unknown) =>
  sql<{ readonly row: unknown }>`
    SELECT to_jsonb(made) - ${differing}::text[] AS row FROM clients AS made
    WHERE project_id = ${projectId} AND id = ${decodeReceipt(body).resourceId}`

/**
 * Compares the contenders in the measured cases, before the first round: equal reads must get equal answers, equal commands
 * must leave equal rows, and each contender must replay the answer of the other. Returns the cursors of the pages of the list:
 * the contenders read them in turn, so each continues from a cursor of the other.
 */
export const compareAnswers = Effect.fnUntraced(function* (
  contenders: readonly [Running, Running],
  token: string,
  sql: PgClient.PgClient,
  names: ReadonlyArray<CaseName>
) {
  const turn = (i: number) => contenders[i % 2 === 0 ? 0 : 1]
  for (const [i, request] of replayRequests.entries()) yield* sample(turn(i), token, request, cases.create)
  const cursors: Array<string | null> = [null]
  while (cursors.length < pageCount) {
    const request = listRequest(cursors.at(-1) ?? null)
    cursors.push(decodePage(yield* sample(turn(cursors.length), token, request, cases.list)).nextCursor)
  }
  for (const name of names) {
    const of = cases[name]
    const agree = (one: unknown, other: unknown) =>
      isDeepStrictEqual(one, other)
        ? Effect.void
        : new BenchFailed({ message: `${name}: these differ: ${JSON.stringify(one)}, ${JSON.stringify(other)}` })
    const found: Array<unknown> = []
    for (const contender of contenders) {
      const request = requestsOf(of, cursors.slice(1))()
      const body = yield* sample(contender, token, request, of)
      found.push(of.differing === undefined ? body : yield* rowOf(sql, of.differing, body))
      for (const again of of.differing === undefined ? [] : contenders) {
        yield* agree(body, yield* sample(again, token, request, { ...of, replayed: true }))
      }
    }
    yield* agree(found[0], found[1])
  }
  return cursors
})
