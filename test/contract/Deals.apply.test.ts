/** Commands on deals, while a project file changes the pipelines that the deals are on (contract §1, §7 and §12). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { atOnce } from "./Clients.support.ts"
import { open, pipelines } from "./Deals.support.ts"

/** The moment is short in which a command has seen the pipelines as they no longer are: hence so many, so often. */
const rounds = Array.from({ length: 30 }, (_, round) => round)
const many = 120

layer(TestServer.layer(), { excludeTestServices: true })("while a project file is applied", (it) => {
  it.effect("a deal is created on the default pipeline, the old one or the new", () =>
    Effect.gen(function* () {
      const { apply, create } = yield* open()
      for (const round of rounds) {
        const [answers] = yield* Effect.all(
          [
            atOnce(many, () => create({ title: "A" })),
            apply({
              project: { defaultPipelineId: `pipeline ${round}` },
              pipelines: [{ id: `pipeline ${round}`, name: "P", stages: [{ id: `stage ${round}`, name: "S" }] }]
            })
          ],
          { concurrency: 2 }
        )
        for (const answer of answers) receiptOf(answer, 201)
      }
    })
  )

  it.effect("a deal is created in the first stage, the old one or the new", () =>
    Effect.gen(function* () {
      const { apply, create, read } = yield* open()
      for (const round of rounds) {
        const file = (...stages: ReadonlyArray<string>) => ({
          project: { defaultPipelineId: `pipeline ${round}` },
          pipelines: [
            { id: `pipeline ${round}`, name: "P", stages: stages.map((id) => ({ id: `${id} ${round}`, name: "S" })) }
          ]
        })
        yield* apply(file("first", "second"))
        const [answers] = yield* Effect.all(
          [
            atOnce(many, () => create({ title: "A" })),
            // It fails when a deal is in the stage already.
            Effect.exit(apply(file("second")))
          ],
          { concurrency: 2 }
        )
        const ids = answers.map((answer) => receiptOf(answer, 201).resourceId)
        const { stageId } = yield* read(ids.at(-1) ?? assert.fail())
        assert.include([`first ${round}`, `second ${round}`], stageId)
      }
    })
  )

  it.effect("a deal moves to a stage, or finds that it is gone", () =>
    Effect.gen(function* () {
      const deals = Array.from({ length: 40 }, (_, index) => ({ id: `d${index}`, title: "A", stageId: "new" }))
      const without = pipelines.map(({ stages, ...pipeline }) => ({
        ...pipeline,
        stages: stages.filter(({ id }) => id !== "agreed")
      }))
      const { apply, patch } = yield* open({ deals })
      for (const _ of rounds) {
        const [answers] = yield* Effect.all(
          [
            atOnce(many, (index) => patch(`d${index % 40}`, { stageId: index >= 40 && index < 80 ? "new" : "agreed" })),
            apply({ pipelines: without, deals })
          ],
          { concurrency: 2 }
        )
        for (const answer of answers) {
          if (answer.status === 200) receiptOf(answer, 200)
          else problemOf(answer, 404, "deal_reference_not_found")
        }
        yield* apply({ pipelines, deals })
      }
    })
  )
})
