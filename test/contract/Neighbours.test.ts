/** The effect of one project's commands on the reads and commands of another. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { TestServer } from "../support/TestServer.ts"

const client = "/api/v1/developer/crm/clients/c"

layer(TestServer.layer(), { excludeTestServices: true })("a project whose commands all wait for one record", (it) => {
  it.effect("delays neither reads nor, after the lock, commands of other projects", function* () {
    const { seed, send, sql } = yield* TestServer
    const clients = [{ id: "c", displayName: "C" }]
    const [busy, other] = [yield* seed({ clients }), yield* seed({ clients })]
    const patch = (token: string, n: number) =>
      send({ method: "PATCH", path: client, token, key: `neighbour-${n}`, json: { firstName: `${n}` } })

    let settled = 0
    const patches = yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`SELECT FROM clients WHERE project_id = ${busy.projectId} AND id = 'c' FOR UPDATE`
        const patches = yield* Effect.forEach(
          // Enough to occupy every connection of the mutations.
          Array.from({ length: 200 }, (_, n) => n),
          (n) => Effect.forkChild(Effect.tap(patch(busy.token, n), () => Effect.sync(() => settled++)))
        )
        // They wait in the database.
        yield* sql`SELECT FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY (pg_blocking_pids(pid))`.pipe(
          Effect.repeat({ until: (waiting) => waiting.length > 0 })
        )
        for (let n = 0; n < 10; n++) {
          assert.strictEqual((yield* send({ path: client, token: other.token })).status, 200)
        }
        assert.strictEqual(settled, 0)
        return patches
      })
    )
    assert.strictEqual((yield* patch(other.token, 0)).status, 200)
    for (const patch of patches) assert.include([200, 503], (yield* Fiber.join(patch)).status)
  })
})
