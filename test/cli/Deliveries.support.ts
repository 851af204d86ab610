/** The command `deliveries`, and a project with a delivery in every state. */
import { assert } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import {
  type Answering,
  hang,
  type Hit,
  ok,
  open,
  receiver,
  reset,
  status
} from "../integrations/deliveries/Deliveries.support.ts"
import { TestServer } from "../support/TestServer.ts"
import { at, documentOf, type Ended, run } from "./Cli.support.ts"
import { until, untilRows } from "../support/Waiting.ts"

export const created = "crm.deal.created.v1"

const Time = Schema.String.check(Schema.isPattern(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/))
const delivery = {
  deliveryId: Schema.String,
  installationId: Schema.String,
  eventType: Schema.String,
  status: Schema.String,
  attempts: Schema.Int,
  nextAttemptAt: Schema.NullOr(Time),
  lastStatusCode: Schema.NullOr(Schema.Int),
  lastErrorCode: Schema.NullOr(Schema.String),
  createdAt: Time
}
const List = Schema.Struct({ items: Schema.Array(Schema.Struct(delivery)), next: Schema.Null })
const Attempt = Schema.Struct({
  number: Schema.Int,
  startedAt: Time,
  finishedAt: Time,
  statusCode: Schema.NullOr(Schema.Int),
  errorCode: Schema.NullOr(Schema.String),
  durationMs: Schema.NullOr(Schema.Int)
})
const Shown = Schema.Struct({ ...delivery, replayOf: Schema.NullOr(Schema.String), attemptLog: Schema.Array(Attempt) })
export type Shown = typeof Shown.Type

const strictly = { onExcessProperty: "error", errors: "all" } as const
const decodeList = Schema.decodeUnknownSync(List, strictly)
const decodeShown = Schema.decodeUnknownSync(Shown, strictly)

/** Runs a command on the server's database, while the server runs. */
const deliveries = (...args: ReadonlyArray<string>) =>
  Effect.flatMap(TestServer, ({ databaseUrl }) => run(["deliveries", ...args], { env: at(Redacted.make(databaseUrl)) }))

export const list = (project: string, ...flags: ReadonlyArray<string>) =>
  deliveries("list", "--project", project, ...flags)

export const show = (project: string, id: string, ...flags: ReadonlyArray<string>) =>
  deliveries("show", "--project", project, "--delivery", id, ...flags)

/** Lists deliveries; each item has exactly the members of the contract. */
export const listed = (...args: Parameters<typeof list>) =>
  Effect.map(list(...args, "--json"), (ended) => decodeList(documentOf(ended)).items)

/** Shows a delivery with the log of its attempts; it has exactly the members of the contract. */
export const shown = (...args: Parameters<typeof show>) =>
  Effect.map(show(...args, "--json"), (ended) => decodeShown(documentOf(ended)))

/** Returns the lines of text output. */
export const linesOf = ({ status, stderr, stdout }: Ended): ReadonlyArray<string> => {
  assert.deepStrictEqual([status, stderr, stdout.at(-1)], [0, "", "\n"])
  return stdout.trimEnd().split("\n")
}

/** Returns the cells of the only line that contains a text. */
export const cellsOf = (lines: ReadonlyArray<string>, text: string): ReadonlyArray<string> => {
  const [line = assert.fail(text), ...more] = lines.filter((line) => line.includes(text))
  assert.deepStrictEqual(more, [])
  return line.split(/ {2,}/)
}

/** Answers the first attempt with a status, and later ones, on another connection, with `then`. */
const atFirst =
  (first: number, then: Answering): Answering =>
  (hit, n) =>
    (n === 0 ? status(first, { connection: "close" }) : then)(hit, n)

/** An installation for each state of a delivery, and the expected output. */
export const ways = {
  delivered: { answers: ok, status: "delivered", attempts: 1, codes: [200] },
  again: { answers: atFirst(500, status(204)), status: "delivered", attempts: 2, codes: [500, 204] },
  waiting: { answers: atFirst(500, reset), status: "pending", attempts: 2, codes: [500, null] },
  // An attempt in flight is counted, but is not in the log yet.
  underway: { answers: hang, status: "delivering", attempts: 1, codes: [] },
  gone: { answers: status(410), status: "dead", attempts: 1, codes: [410] },
  parked: { answers: ok, status: "pending", attempts: 0, codes: [] }
} as const
export type Way = keyof typeof ways
export const names: ReadonlyArray<Way> = ["delivered", "again", "waiting", "underway", "gone", "parked"]

export const title = "Not for the eyes of operators"

/** Creates a project with a delivery for each of `ways`, all of one event. The server's second delay is an hour. */
export const openAll = Effect.fnUntraced(function* () {
  const project = yield* open(yield* TestServer, names)
  const hits = new Map<string, ReadonlyArray<Hit>>()
  const secrets: Array<string> = []
  for (const name of names) {
    const to = yield* receiver(ways[name].answers)
    hits.set(name, to.hits)
    secrets.push(yield* project.subscribe(name, to.url, [created]))
  }
  yield* project.sql`
    UPDATE endpoint_health SET parked_until = now() + interval '1 day'
    WHERE project_id = ${project.projectId} AND installation_id = 'parked'`.pipe(Effect.orDie)
  const before = Date.now()
  yield* project.created({ title })
  yield* until(() => hits.get("underway")?.length === 1)
  yield* untilRows(project.deliveries(), (rows) =>
    rows.every(({ installation, log }) => names.some((n) => n === installation && log.length >= ways[n].codes.length))
  )
  return { projectId: project.projectId, before, hits: (name: Way) => hits.get(name) ?? [], secrets }
})
export type All = Effect.Success<ReturnType<typeof openAll>>
