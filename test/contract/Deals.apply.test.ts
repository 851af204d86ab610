/** Commands on deals whose statement has begun when a project file changes the pipelines (contract §1, §7 and §12). */
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { untilRows } from "../support/Waiting.ts"
import { atOnce } from "./Clients.support.ts"
import { open, pipelines } from "./Deals.support.ts"

/** Makes each statement wait for advisory lock 1 between its snapshot and its entry into the project. */
const delayEntry = Effect.gen(function* () {
  const { sql } = yield* TestServer
  yield* sql`ALTER FUNCTION enter_project RENAME TO enter_project_now`
  yield* sql`
    CREATE FUNCTION enter_project(project text) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
      PERFORM pg_advisory_xact_lock_shared(1);
      RETURN enter_project_now(project);
    END $$`
}).pipe(Effect.orDie)

const delayed = Layer.effectDiscard(delayEntry).pipe(Layer.provideMerge(TestServer.layer()))

/** Runs a command whose statement takes its snapshot before the change and enters the project after it. */
const changedMeanwhile = <A>(command: Effect.Effect<A>, change: Effect.Effect<unknown>) =>
  Effect.gen(function* () {
    const { sql } = yield* TestServer
    const connection = yield* sql.reserve
    const execute = (text: string) => connection.execute(text, [], undefined)
    yield* execute("SELECT pg_advisory_lock(1)")
    const running = yield* Effect.forkChild(command)
    yield* untilRows(
      Effect.orDie(sql`SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted AND objid = 1`),
      (waiting) => waiting.length > 0
    )
    yield* change
    yield* execute("SELECT pg_advisory_unlock(1)")
    return yield* Fiber.join(running)
  }).pipe(Effect.scoped, Effect.orDie)

layer(delayed, { excludeTestServices: true })("a project file that is applied during a command", (it) => {
  it.effect("makes the default pipeline of a new deal the one that the file names", () =>
    Effect.gen(function* () {
      const { apply, create, read } = yield* open()
      const answers = yield* changedMeanwhile(
        atOnce(20, () => create({ title: "A" })),
        apply({ project: { defaultPipelineId: "service" } })
      )
      for (const answer of answers) {
        const { resourceId } = receiptOf(answer, 201)
        assert.deepInclude(yield* read(resourceId), { pipelineId: "service", stageId: "intake" })
      }
    })
  )

  it.effect("makes the first stage of a new deal the one that the file puts first", () =>
    Effect.gen(function* () {
      const { apply, create, read } = yield* open()
      const answer = yield* changedMeanwhile(
        create({ title: "A" }),
        apply({ pipelines: pipelines.map((pipeline) => ({ ...pipeline, stages: pipeline.stages.toReversed() })) })
      )
      const { resourceId } = receiptOf(answer, 201)
      assert.deepInclude(yield* read(resourceId), { pipelineId: "sales", stageId: "closing" })
    })
  )

  it.effect("makes a move to a stage that it removes answer deal_reference_not_found", () =>
    Effect.gen(function* () {
      const { apply, created, patch, read } = yield* open()
      const deal = yield* created()
      const answer = yield* changedMeanwhile(
        patch(deal.id, { stageId: "agreed" }),
        apply({
          pipelines: pipelines.map(({ stages, ...pipeline }) => ({
            ...pipeline,
            stages: stages.filter(({ id }) => id !== "agreed")
          }))
        })
      )
      problemOf(answer, 404, "deal_reference_not_found")
      assert.deepStrictEqual(yield* read(deal.id), deal)
    })
  )
})
