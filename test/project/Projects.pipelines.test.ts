/** Pipelines and stages of applied files, and the stages that a file must keep. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { apply, faultsOf, projectRow, rowsOf, services, stateOf, textOf } from "./Projects.support.ts"

/** Returns a pipeline called `id` with its stages in order: `a`, or `a:Name`. */
const pipeline = (id: string, ...stages: ReadonlyArray<string>) => ({
  id,
  name: id.toUpperCase(),
  stages: stages.map((stage) => {
    const [stageId = "", name = stageId] = stage.split(":")
    return { id: stageId, name }
  })
})

/** Returns the stages of a project in order, as `pipeline/0/stage/name`. */
const stagesOf = Effect.fnUntraced(function* (projectId: string) {
  const rows = yield* rowsOf("stages", projectId)
  return rows.map(({ id, name, pipeline_id, position }) => [pipeline_id, position, id, name].join("/")).toSorted()
})

layer(services)("pipelines of a project file", (it) => {
  it.effect("are created with their stages in order, and unchanged the second time", () =>
    Effect.gen(function* () {
      const pipelines = [pipeline("p", "z:Zoe", "a", "m"), pipeline("q", "b")]
      const created = yield* apply("create", { pipelines })
      assert.deepStrictEqual(created.created, { project: 1, pipelines: 2 })
      assert.deepStrictEqual(yield* stagesOf("create"), ["p/0/z/Zoe", "p/1/a/a", "p/2/m/m", "q/0/b/b"])
      const sql = yield* SqlClient.SqlClient
      const touched = sql`SELECT xmin::text FROM stages WHERE project_id = 'create' ORDER BY id`
      const before = yield* touched
      const again = yield* apply("create", { pipelines })
      assert.deepStrictEqual(again.unchanged, { project: 1, pipelines: 2 })
      assert.deepStrictEqual(yield* touched, before)
    })
  )

  it.effect("are updated when their name or any of their stages differs", () =>
    Effect.gen(function* () {
      const changes = {
        name: { ...pipeline("p", "a", "b"), name: "other" },
        "name of a stage": pipeline("p", "a", "b:other"),
        order: pipeline("p", "b", "a"),
        more: pipeline("p", "a", "c", "b"),
        fewer: pipeline("p", "b"),
        others: pipeline("p", "c", "d")
      }
      for (const [change, changed] of Object.entries(changes)) {
        yield* apply(change, { pipelines: [pipeline("o", "x"), pipeline("p", "a", "b"), pipeline("q", "y")] })
        const { unchanged, updated } = yield* apply(change, { pipelines: [changed, pipeline("q", "y")] })
        assert.deepStrictEqual([updated["pipelines"], unchanged["pipelines"]], [1, 1], change)
        const stages = changed.stages.map(({ id, name }, position) => `p/${position}/${id}/${name}`)
        assert.deepStrictEqual(yield* stagesOf(change), ["o/0/x/x", ...stages, "q/0/y/y"], change)
        assert.strictEqual((yield* apply(change, { pipelines: [changed] })).unchanged["pipelines"], 1, change)
      }
    })
  )

  it.effect("may exchange stages", () =>
    Effect.gen(function* () {
      yield* apply("hand", { pipelines: [pipeline("p", "a", "b"), pipeline("q", "c", "d")] })
      const report = yield* apply("hand", { pipelines: [pipeline("p", "c", "b"), pipeline("q", "d", "a")] })
      assert.strictEqual(report.updated["pipelines"], 2)
      assert.deepStrictEqual(yield* stagesOf("hand"), ["p/0/c/c", "p/1/b/b", "q/0/d/d", "q/1/a/a"])
    })
  )

  it.effect("have stages with ids that no other pipeline has", () =>
    Effect.gen(function* () {
      const id = "own"
      yield* apply(id, { pipelines: [pipeline("p", "a", "b")] })
      const before = yield* stateOf(id)
      assert.deepStrictEqual(
        yield* faultsOf(textOf(id, { pipelines: [pipeline("q", "c", "b"), pipeline("r", "d", "d", "c")] })),
        [
          "pipelines/1/stages/1/id: repeats pipelines/1/stages/0/id",
          "pipelines/1/stages/2/id: repeats pipelines/0/stages/0/id",
          "pipelines/0/stages/1/id: belongs to the pipeline p, which the file doesn't replace"
        ]
      )
      assert.deepStrictEqual(yield* stateOf(id), before)
      yield* apply("own-too", { pipelines: [pipeline("q", "a")] })
    })
  )

  it.effect("keep stages that contain deals", () =>
    Effect.gen(function* () {
      const id = "keep"
      const pipelines = [pipeline("p", "a", "b", "c"), pipeline("q", "d")]
      const deal = (id: string, stageId: string) => ({ id, title: "T", pipelineId: "p", stageId })
      yield* apply(id, { pipelines, deals: [deal("1", "a"), deal("2", "b"), deal("3", "b")] })
      const before = yield* stateOf(id)
      const refused = (file: Parameters<typeof textOf>[1]) => faultsOf(textOf(id, file))

      // Removed, with deals in it that the file does not contain.
      assert.deepStrictEqual(yield* refused({ pipelines: [pipeline("q", "d"), pipeline("p", "c")] }), [
        "pipelines/1/stages: must keep the stage a: the deal 1 is in it",
        "pipelines/1/stages: must keep the stage b: the deal 2 is in it"
      ])
      // Moved to another pipeline, with a deal in it that stays, whether or not the file contains the deal.
      const moved = [pipeline("p", "b", "c"), pipeline("q", "d", "a")]
      const expected = ["pipelines/0/stages: must keep the stage a: the deal 1 is in it"]
      assert.deepStrictEqual(yield* refused({ pipelines: moved }), expected)
      assert.deepStrictEqual(yield* refused({ pipelines: moved, deals: [{ id: "1", title: "T" }] }), expected)
      // Removed, with deals in it that the file adds.
      assert.deepStrictEqual(yield* refused({ pipelines: [pipeline("p", "a", "b")], deals: [deal("4", "c")] }), [
        "deals/0/stageId: names nothing in stages, here or in the project",
        "pipelines/0/stages: must keep the stage c: the deal 4 is in it"
      ])
      assert.deepStrictEqual(yield* stateOf(id), before)
    })
  )

  it.effect("are reported in one line, whatever their ids contain", () =>
    Effect.gen(function* () {
      const deals = [{ id: "d\n1", title: "T", pipelineId: "p" }]
      yield* apply("line", { pipelines: [pipeline("p", "a\u001b", "b")], deals })
      assert.deepStrictEqual(yield* faultsOf(textOf("line", { pipelines: [pipeline("p", "b")] })), [
        "pipelines/0/stages: must keep the stage a\\u001b: the deal d\\u000a1 is in it"
      ])
    })
  )

  it.effect("lose or exchange stages when the file moves their deals", () =>
    Effect.gen(function* () {
      const id = "leave"
      const deals = [
        { id: "1", title: "T", pipelineId: "p", stageId: "a" },
        { id: "2", title: "T", pipelineId: "p", stageId: "b" }
      ]
      yield* apply(id, { pipelines: [pipeline("p", "a", "b"), pipeline("q", "c")], deals })
      const { updated } = yield* apply(id, {
        pipelines: [pipeline("p", "b:B"), pipeline("q", "c", "a")],
        deals: [{ id: "1", title: "T", pipelineId: "q", stageId: "a" }]
      })
      assert.deepStrictEqual(updated, { project: 0, pipelines: 2, deals: 1 })
      yield* apply(id, { pipelines: [pipeline("p", "x")], deals: [{ id: "2", title: "T", stageId: "x" }] })
      const rows = yield* rowsOf("deals", id)
      assert.deepStrictEqual(
        rows.map(({ pipeline_id, stage_id }) => [pipeline_id, stage_id]),
        [
          ["q", "a"],
          ["p", "x"]
        ]
      )
    })
  )

  it.effect("are the project's default when it names one of the file or of the project", () =>
    Effect.gen(function* () {
      const id = "default"
      const defaultPipeline = Effect.map(projectRow(id), (row) => row?.["default_pipeline_id"])
      const created = yield* apply(id, { project: { defaultPipelineId: "p" }, pipelines: [pipeline("p", "a")] })
      assert.strictEqual(created.created["project"], 1)
      assert.strictEqual(yield* defaultPipeline, "p")
      const both = { project: { defaultPipelineId: "q" }, pipelines: [pipeline("q", "b")] }
      assert.strictEqual((yield* apply(id, both)).updated["project"], 1)
      assert.strictEqual((yield* apply(id, both)).unchanged["project"], 1)
      assert.strictEqual((yield* apply(id)).unchanged["project"], 1)
      assert.strictEqual(yield* defaultPipeline, "q")
      assert.deepStrictEqual(yield* faultsOf(textOf(id, { project: { defaultPipelineId: "r" } })), [
        "project/defaultPipelineId: names nothing in pipelines, here or in the project"
      ])
      yield* apply(id, { project: { defaultPipelineId: "p" } })
      assert.strictEqual(yield* defaultPipeline, "p")
      yield* apply(id, { project: { defaultPipelineId: null } })
      assert.isNull(yield* defaultPipeline)
    })
  )
})
