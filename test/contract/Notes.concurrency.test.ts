/** Concurrent changes of one note: each version has one writer, and each command one effect (contract §5, §7). */
import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { atOnce, statusesOf } from "./Clients.support.ts"
import { slowDown } from "../support/SlowRows.ts"
import { callsOf, open } from "./Notes.support.ts"

/** Returns the only successful answer, with its index. */
const winnerOf = (answers: ReadonlyArray<Answer>) => {
  const winners = answers.flatMap((answer, index) => (answer.status === 200 ? [{ answer, index }] : []))
  assert.strictEqual(winners.length, 1, JSON.stringify(statusesOf(answers)))
  return winners[0] ?? assert.fail()
}

const assertConflicts = (answers: ReadonlyArray<Answer>, currentVersion: number) => {
  for (const answer of answers) {
    assert.strictEqual(problemOf(answer, 409, "version_conflict").currentVersion, currentVersion)
  }
}

const server = Layer.effectDiscard(Effect.flatMap(TestServer, ({ sql }) => slowDown(sql, "notes"))).pipe(
  Layer.provideMerge(TestServer.layer())
)

layer(server, { excludeTestServices: true })("a note under concurrent commands", (it) => {
  it.effect(
    "takes one of 20 texts at the same version on two replicas, and answers version_conflict to the others",
    () =>
      Effect.gen(function* () {
        const notes = yield* open()
        const { created, find, projectId, server, token } = notes
        const replica = callsOf(yield* startServer({ DATABASE_URL: server.databaseUrl }), { projectId, token }, "deal")
        const id = yield* created()
        for (let version = 1; version <= 5; version++) {
          const answers = yield* atOnce(20, (index) =>
            (index % 2 === 0 ? notes : replica).patch(id, {
              body: `Version ${version} of ${index}`,
              expectedVersion: version
            })
          )
          const { answer, index } = winnerOf(answers)
          assert.deepInclude(receiptOf(answer, 200), { changed: true, version: version + 1 })
          assertConflicts(answers.toSpliced(index, 1), version + 1)
          assert.deepInclude(yield* find(id), { body: `Version ${version} of ${index}`, version: version + 1 })
        }
      })
  )

  it.effect("is changed or removed by one of 20 commands", () =>
    Effect.gen(function* () {
      const { created, find, patch, remove } = yield* open()
      for (let round = 0; round < 8; round++) {
        const id = yield* created()
        const removes = (index: number) => (index + round) % 2 === 0
        const answers = yield* atOnce(20, (index) =>
          removes(index) ? remove(id, 1) : patch(id, { body: `Of ${index}`, expectedVersion: 1 })
        )
        const { answer, index } = winnerOf(answers)
        const others = answers.toSpliced(index, 1)
        if (removes(index)) {
          assert.strictEqual(receiptOf(answer, 200).version, 1)
          for (const other of others) problemOf(other, 404, "note_not_found")
          assert.isUndefined(yield* find(id))
        } else {
          assert.strictEqual(receiptOf(answer, 200).version, 2)
          assertConflicts(others, 2)
          assert.deepInclude(yield* find(id), { body: `Of ${index}`, version: 2 })
        }
      }
    })
  )

  it.effect("keeps the additions of 10 writers that retry after conflicts", () =>
    Effect.gen(function* () {
      const { created, find, patch } = yield* open()
      const id = yield* created("0")
      const add = (mark: number) =>
        Effect.gen(function* () {
          const { body, version } = (yield* find(id)) ?? assert.fail()
          const answer = yield* patch(id, { body: `${body} ${mark}`, expectedVersion: version })
          if (answer.status !== 200) problemOf(answer, 409, "version_conflict")
          return answer.status
        }).pipe(Effect.repeat({ until: (status) => status === 200 }))
      yield* atOnce(10, (index) => add(index + 1))
      const { body = "", version } = (yield* find(id)) ?? {}
      assert.strictEqual(version, 11)
      assert.deepStrictEqual(
        body
          .split(" ")
          .map(Number)
          .toSorted((left, right) => left - right),
        Array.from({ length: 11 }, (_, index) => index)
      )
    })
  )
})
