/** Commands on a webhook whose statement has begun when a rotation is committed (contract §10). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { secretOf } from "../support/ContractAnswers.ts"
import { changedMeanwhile, delayed } from "./Delayed.support.ts"
import { open } from "./Webhooks.support.ts"

/** Opens a webhook at version 1, with what a rotation to version 2 commits, and the versions of the secrets in force. */
const opened = Effect.gen(function* () {
  const webhooks = yield* open()
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

layer(delayed, { excludeTestServices: true })("a rotation that is committed during a command", (it) => {
  it.effect("is followed by a rotation that retires its secret", function* () {
    const { inForce, rotate, rotation } = yield* opened
    const answer = yield* changedMeanwhile(rotate(2), rotation)
    assert.strictEqual(secretOf(answer).version, 3)
    assert.deepStrictEqual(yield* inForce, ["3"])
  })

  it.effect("is followed by a configure that sees its secret", function* () {
    const { configured, inForce, rotation } = yield* opened
    const receipt = yield* changedMeanwhile(configured({ expectedVersion: 2 }), rotation)
    assert.deepInclude(receipt, { version: 2, changed: false })
    assert.deepStrictEqual(yield* inForce, ["2"])
  })
})
