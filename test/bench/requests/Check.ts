/** Comparison of the contenders: correct and equal answers, from the same statements. */
import type { PgClient } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { isDeepStrictEqual } from "node:util"
import { type Answer, type Case, ownColumns, type Refusal, type Request, requestsOf } from "./Case.ts"
import { cases, type CaseName, faultsOf } from "./Cases.ts"
import { decodeReceipt, listRequest, nextCursor, replayRequests } from "./cases/Clients.ts"
import { makeCursors } from "./fastify/Cursor.ts"
import { clientCount, deepPlace, projectId } from "./Seed.ts"
import { BenchFailed, type Running, secretKey } from "../Stage.ts"

/** Number of pages that the list reads repeatedly. */
const pageCount = 20

type Contenders = readonly [Running, Running]

/** A contender in one case. */
export interface Contestant extends Running {
  readonly case: CaseName
}

/** Returns the contestants of a case: both contenders, or ours twice, by its tool and by HTTP. */
export const contestantsOf = (name: CaseName, [one, other]: Contenders): readonly [Contestant, Contestant] => {
  const { byHttp } = cases[name]
  return byHttp === undefined
    ? [
        { ...one, case: name },
        { ...other, case: name }
      ]
    : [
        { ...one, case: name },
        { ...one, name: "by HTTP", case: byHttp }
      ]
}

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
  const whole = yield* ask(contender, token, request)
  const answer = of.answerOf?.(whole) ?? whole
  const faults = faultsOf(of, request, answer)
  if (faults.length === 0) return answer
  const message = `${contender.name}: ${request.method} ${request.path}: ${faults.join("; ")}`
  return yield* new BenchFailed({ message })
})

const decodeProblem = Schema.decodeUnknownSync(
  Schema.Struct({
    type: Schema.String,
    title: Schema.String,
    status: Schema.Int,
    code: Schema.String,
    errors: Schema.optionalKey(Schema.Record(Schema.String, Schema.Array(Schema.String))),
    currentVersion: Schema.optionalKey(Schema.Int)
  })
)

/** Returns the parts of a problem that the contract fixes: everything but the texts of its faults. */
const fixedParts = ({ body, headers, status }: Answer) => {
  const { errors, ...problem } = decodeProblem(body)
  const locations = errors && Object.keys(errors).toSorted()
  return { ...problem, sent: status, contentType: headers["content-type"]?.split(";")[0], locations }
}

/** Fails unless both contenders refuse a request in the same way, as the contract requires. */
const refuse = Effect.fnUntraced(function* (
  contenders: Contenders,
  token: string,
  { code, currentVersion, locations, request, status, ...refusal }: Refusal
) {
  const answers: Array<unknown> = []
  for (const contender of contenders) {
    const found = fixedParts(yield* ask(contender, refusal.token ?? token, request))
    const wanted = {
      ...found,
      code,
      status,
      sent: status,
      contentType: "application/problem+json",
      locations,
      ...(currentVersion === undefined ? {} : { currentVersion })
    }
    if (!isDeepStrictEqual(found, wanted)) {
      return yield* new BenchFailed({ message: `${contender.name}: ${request.path} gave ${JSON.stringify(found)}` })
    }
    answers.push(found)
  }
  if (!isDeepStrictEqual(answers[0], answers[1])) {
    return yield* new BenchFailed({ message: `${request.path} is refused in two ways: ${JSON.stringify(answers)}` })
  }
})

/** Returns the text of a statement without line breaks and numbers of parameters. */
const normal = (text: string) =>
  text
    .replace(/\$[0-9]+/g, "$")
    .replace(/\s+/g, " ")
    .replace(/ ?([(),]) ?/g, "$1")
    .trim()

const lastStatement = (sql: PgClient.PgClient, { statement }: Case) =>
  sql<{ readonly query: string }>`
    SELECT query FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND query LIKE ${statement} ORDER BY query_start DESC LIMIT 1`.pipe(
    Effect.map((rows) => normal(rows[0]?.query ?? ""))
  )

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
 * contender must replay the answer of the other. Returns whether both sent the same statement.
 */
const compareCase = Effect.fnUntraced(function* (
  contenders: Contenders,
  token: string,
  sql: PgClient.PgClient,
  name: CaseName,
  cursors: ReadonlyArray<string | null>
) {
  for (const refusal of cases[name].refusals) yield* refuse(contenders, token, refusal)
  const contestants = contestantsOf(name, contenders)

  const bodies: Array<unknown> = []
  const rows: Array<unknown> = []
  const statements: Array<string> = []
  for (const [i, contender] of contestants.entries()) {
    const of = cases[contender.case]
    const batch = `compared_${i}`
    yield* of.prepare?.(sql, batch, 1) ?? Effect.void
    const request = requestsOf(of.traffic({ batch, cursors }, 0))()
    const answer = yield* sample(contender, token, request, of)
    statements.push(yield* lastStatement(sql, of))
    if (of.writes === undefined) {
      bodies.push(answer.body)
    } else {
      rows.push(yield* rowOf(sql, of.writes, answer))
      for (const again of of.byHttp === undefined ? contestants : [contender]) {
        const repeated = yield* sample(again, token, request, { ...of, replayed: true })
        yield* differ(name, "an answer and its repeat", [answer.body, repeated.body])
      }
    }
  }
  yield* differ(name, "the answers", bodies)
  yield* differ(name, "the rows", rows)
  return statements[0] === statements[1]
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
 * Compares the contenders in the measured cases, before the first round. Both must refuse wrong requests in the same way,
 * and replay each other's answers. Different statements give only a note, as another checkout may get the same result with
 * other statements.
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
  const notes: Array<string> = []
  for (const name of names) {
    const cursors = name === "list-deep" ? deep : first
    const pages = name === "list" ? [cursors.slice(0, 1), cursors.slice(1)] : [cursors]
    for (const page of pages) {
      const same = yield* compareCase(contenders, token, sql, name, page)
      if (!same) notes.push(`${name}: the statements of ${contenders.map((one) => one.name).join(" and ")} differ`)
    }
  }
  return { cursors: (name: CaseName) => (name === "list-deep" ? deep : first), notes }
})
