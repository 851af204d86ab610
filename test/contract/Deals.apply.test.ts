/** Commands on deals whose statement has begun when a project file changes the pipelines (contract §1, §7 and §12). */
import { assert, layer } from "../support/Vitest.ts"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { atOnce } from "./Clients.support.ts"
import { open, pipelines } from "./Deals.support.ts"
import { changedMeanwhile, delayed } from "./Delayed.support.ts"

layer(delayed, { excludeTestServices: true })("a project file that is applied during a command", (it) => {
  it.effect("makes the default pipeline of a new deal the one that the file names", function* () {
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

  it.effect("makes the first stage of a new deal the one that the file puts first", function* () {
    const { apply, create, read } = yield* open()
    const answer = yield* changedMeanwhile(
      create({ title: "A" }),
      apply({ pipelines: pipelines.map((pipeline) => ({ ...pipeline, stages: pipeline.stages.toReversed() })) })
    )
    const { resourceId } = receiptOf(answer, 201)
    assert.deepInclude(yield* read(resourceId), { pipelineId: "sales", stageId: "closing" })
  })

  it.effect("makes a move to a stage that it removes answer deal_reference_not_found", function* () {
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
})
