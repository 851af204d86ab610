/** Commands whose statement has begun when something else is committed: a project file, or a rotation (contract §1, §7, §10, §12). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Layer } from "effect"
import { problemOf, receiptOf, secretOf } from "../support/ContractAnswers.ts"
import { changedMeanwhile } from "../support/Locks.ts"
import { TestServer } from "../support/TestServer.ts"
import { atOnce } from "./Clients.support.ts"
import { open, pipelines } from "./Deals.support.ts"
import { open as openWebhook } from "./Webhooks.support.ts"

/** Makes each statement wait for an advisory lock between its snapshot and its entry into the project. */
const delayEntry = Effect.gen(function* () {
  const { sql } = yield* TestServer
  yield* sql`ALTER FUNCTION enter_project RENAME TO enter_project_now`
  yield* sql`
    CREATE FUNCTION enter_project(project text) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
      PERFORM pg_advisory_xact_lock_shared(hashtext('entry'));
      RETURN enter_project_now(project);
    END $$`
}).pipe(Effect.orDie)

/** A server whose commands wait so. */
const delayed = Layer.effectDiscard(delayEntry).pipe(Layer.provideMerge(TestServer.layer()))

/** Runs a command whose statement takes its snapshot before the change and enters the project after it. */
const meanwhile = <A>(command: Effect.Effect<A>, change: Effect.Effect<unknown>) =>
  Effect.flatMap(TestServer, ({ sql }) => changedMeanwhile(sql, "entry", command, change))

/** Opens a webhook at version 1, with what a rotation to version 2 commits, and the versions of the secrets in force. */
const opened = Effect.gen(function* () {
  const webhooks = yield* openWebhook()
  yield* webhooks.configured()
  const { projectId, server } = webhooks
  const { sql } = server
  const rotation = sql
    .withTransaction(
      Effect.gen(function* () {
        yield* sql`UPDATE webhooks SET version = 2 WHERE project_id = ${projectId}`
        yield* sql`
        WITH retired AS (
          UPDATE webhook_secrets SET retires_at = now() + interval '1 day' WHERE project_id = ${projectId} RETURNING *
        )
        INSERT INTO webhook_secrets (project_id, installation_id, version, sealed)
        SELECT project_id, installation_id, 2, sealed FROM retired`
      })
    )
    .pipe(Effect.orDie)
  const inForce = sql<{ readonly version: string }>`
    SELECT version::text FROM webhook_secrets WHERE project_id = ${projectId} AND retires_at = 'infinity'`
  return {
    ...webhooks,
    rotation,
    inForce: Effect.map(Effect.orDie(inForce), (rows) => rows.map(({ version }) => version))
  }
})

layer(delayed, { excludeTestServices: true })("during a command", (it) => {
  it.effect("a project file makes the default pipeline of a new deal the one that it names", function* () {
    const { apply, create, read } = yield* open()
    const answers = yield* meanwhile(
      atOnce(20, () => create({ title: "A" })),
      apply({ project: { defaultPipelineId: "service" } })
    )
    for (const answer of answers) {
      const { resourceId } = receiptOf(answer, 201)
      assert.deepInclude(yield* read(resourceId), { pipelineId: "service", stageId: "intake" })
    }
  })

  it.effect("a project file makes the first stage of a new deal the one that it puts first", function* () {
    const { apply, create, read } = yield* open()
    const answer = yield* meanwhile(
      create({ title: "A" }),
      apply({ pipelines: pipelines.map((pipeline) => ({ ...pipeline, stages: pipeline.stages.toReversed() })) })
    )
    const { resourceId } = receiptOf(answer, 201)
    assert.deepInclude(yield* read(resourceId), { pipelineId: "sales", stageId: "closing" })
  })

  it.effect("a project file makes a move to a stage that it removes answer deal_reference_not_found", function* () {
    const { apply, created, patch, read } = yield* open()
    const deal = yield* created()
    const answer = yield* meanwhile(
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

  it.effect("a rotation is followed by a rotation that retires its secret", function* () {
    const { inForce, rotate, rotation } = yield* opened
    const answer = yield* meanwhile(rotate(2), rotation)
    assert.strictEqual(secretOf(answer).version, 3)
    assert.deepStrictEqual(yield* inForce, ["3"])
  })

  it.effect("a rotation is followed by a configure that sees its secret", function* () {
    const { configured, inForce, rotation } = yield* opened
    const receipt = yield* meanwhile(configured({ expectedVersion: 2 }), rotation)
    assert.deepInclude(receipt, { version: 2, changed: false })
    assert.deepStrictEqual(yield* inForce, ["2"])
  })
})
