/** Ratings of tickets: when and from whom they are accepted, and how they replace each other (contract §5, §7). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { eventsOf, subscribe } from "../support/Events.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"

type Ticket = NonNullable<Parts["tickets"]>[number]
type Row = { readonly score: number | null; readonly comment: string | null; readonly by: string | null }

const ticket = (id: string, status: Ticket["status"] = "resolved", rating?: NonNullable<Ticket["rating"]>): Ticket => ({
  id,
  subject: "It does not start",
  status,
  ...(rating === undefined ? {} : { rating })
})

/** The ratings that a ticket has, and those that it gets. */
const current = [
  undefined,
  { score: 3, by: "operator" },
  { score: 3, comment: "Good", by: "operator" },
  { score: 4, comment: "e\u0301", by: "operator" },
  { score: 1, comment: "Slow", by: "customer" }
] as const
const given = [
  { score: 1, comment: "Slow" },
  { score: 3 },
  { score: 3, comment: null },
  { score: 3, comment: "Good" },
  { score: 4, comment: "\u00e9" },
  { score: 4, comment: " Solved \n" }
]

/** Creates a project with tickets; the default is a resolved ticket with the id `t`. */
const open = Effect.fnUntraced(function* (
  tickets: ReadonlyArray<Ticket> = [ticket("t")],
  project: Parts["project"] = {}
) {
  const { apply, seed, send, sql } = yield* TestServer
  const { projectId, token } = yield* seed({ project, tickets })
  return {
    projectId,
    sql,
    rate: (id: string, json: unknown, key = newKey()) =>
      send({ method: "PUT", path: `/api/v1/developer/crm/tickets/${encodeURIComponent(id)}/rating`, token, key, json }),
    /** Changes tickets by a project file. */
    apply: (...tickets: ReadonlyArray<Ticket>) => apply(projectId, { tickets }),
    /** Reads the current rating, which no operation returns. */
    read: Effect.fnUntraced(function* (id: string) {
      const rows = yield* sql<Row & { readonly version: number }>`
        SELECT rating_score AS score, rating_comment AS comment, rating_by AS by, version
        FROM tickets WHERE project_id = ${projectId} AND id = ${id}`
      return rows[0] ?? assert.fail(`There is no ticket ${id}`)
    }, Effect.orDie)
  }
})

layer(TestServer.layer(), { excludeTestServices: true })("a ticket", (it) => {
  for (const status of ["open", "pending", "resolved", "closed"] as const) {
    it.effect(
      `that is ${status} takes a rating as a whole, or keeps that of its customer, or cannot be rated`,
      function* () {
        const pairs = current.flatMap((before) => given.map((rating) => ({ before, rating })))
        const { rate, read } = yield* open(pairs.map(({ before }, index) => ticket(`t${index}`, status, before)))
        for (const [index, { rating }] of pairs.entries()) {
          const id = `t${index}`
          const before = yield* read(id)
          const answer = yield* rate(id, rating)
          const isRateable = status === "resolved" || status === "closed"
          if (!isRateable || before.by === "customer") {
            problemOf(answer, 409, isRateable ? "rating_customer_owned" : "ticket_not_rateable")
            assert.deepStrictEqual(yield* read(id), before)
            continue
          }
          const { comment = null, score } = rating
          const changed = score !== before.score || comment !== before.comment
          const version = changed ? 2 : 1
          assert.deepStrictEqual(receiptOf(answer, 200), { resourceId: id, changed, replayed: false, version })
          assert.deepStrictEqual(yield* read(id), { score, comment, by: "operator", version })
        }
      }
    )
  }

  it.effect("appends no event for a rating", function* () {
    const { projectId, rate, sql } = yield* open()
    yield* subscribe(sql, projectId, "shop")
    receiptOf(yield* rate("t", { score: 5 }), 200)
    assert.deepStrictEqual(yield* eventsOf(sql, projectId), [])
  })
})
