/** `project delete`: the rows that it removes, and its refusals. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Redacted, Schema } from "effect"
import { World } from "../contract/Samples.ts"
import { TestServer } from "../support/TestServer.ts"
import { at, documentOf, run } from "./Cli.support.ts"

const isRemoval = Schema.is(
  Schema.Struct({ projectId: Schema.String, deleted: Schema.Record(Schema.String, Schema.Int) })
)

/** Returns the tables that have rows of a project. */
const tablesOf = (projectId: string) =>
  Effect.gen(function* () {
    const { sql } = yield* TestServer
    const tables = yield* sql<{ name: string }>`
      SELECT attrelid::regclass::text AS name FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
      WHERE attname = 'project_id' AND relkind IN ('r', 'p') AND relnamespace = current_schema()::regnamespace`
    const found = yield* Effect.filter(tables, ({ name }) =>
      Effect.map(sql`SELECT FROM ${sql(name)} WHERE project_id = ${projectId} LIMIT 1`, (rows) => rows.length > 0)
    )
    return found.map(({ name }) => name)
  }).pipe(Effect.orDie)

const onProject = (projectId: string, command: string, ...flags: ReadonlyArray<string>) =>
  Effect.flatMap(TestServer, ({ databaseUrl }) =>
    run([...command.split(" "), "--project", projectId, ...flags], { env: at(Redacted.make(databaseUrl)) })
  )
const command = (projectId: string, confirm: string, ...flags: ReadonlyArray<string>) =>
  onProject(projectId, "project delete", "--confirm", confirm, ...flags)

const statusOf = (token: string) =>
  Effect.flatMap(TestServer, ({ send }) =>
    Effect.map(send({ method: "GET", path: "/api/v1/developer/crm/clients?limit=1", token }), ({ status }) => status)
  )

layer(World.layer, { excludeTestServices: true })("project delete", (it) => {
  it.effect("removes every row of a project that has some in all tables, and none of another", function* () {
    const { own, seed } = yield* World
    const kept = yield* tablesOf(own.projectId)
    const { projectId, token } = yield* seed()
    assert.isAbove((yield* tablesOf(projectId)).length, 15)
    assert.strictEqual(yield* statusOf(token), 200)
    const removal = documentOf(yield* command(projectId, projectId, "--json"))
    assert.isTrue(isRemoval(removal) && removal.projectId === projectId)
    assert.deepStrictEqual(yield* tablesOf(projectId), [])
    assert.deepStrictEqual(yield* tablesOf(own.projectId), kept)
    assert.strictEqual(yield* statusOf(own.token), 200)
    const again = yield* command(projectId, projectId)
    assert.deepStrictEqual([again.status, again.stderr], [1, `There is no project "${projectId}"\n`])
  })

  it.effect("requires the project's id twice", function* () {
    const { own } = yield* World
    const { status, stderr, stdout } = yield* command(own.projectId, "another")
    assert.deepStrictEqual([status, stdout], [2, ""])
    assert.match(stderr, /--confirm/)
    assert.strictEqual(yield* statusOf(own.token), 200)
  })

  it.effect(
    "refuses the tokens of a marked project within a second, and continues where another run has ended",
    function* () {
      const { seed } = yield* World
      const { apply, sql } = yield* TestServer
      const { projectId, token } = yield* seed()
      assert.strictEqual(yield* statusOf(token), 200)
      yield* sql`UPDATE projects SET deleted_at = now() WHERE project_id = ${projectId}`
      yield* sql`UPDATE api_keys SET revoked_at = now() WHERE project_id = ${projectId}`
      yield* Effect.sleep("1 second")
      assert.strictEqual(yield* statusOf(token), 401)
      const issued = yield* onProject(projectId, "token issue", "--name", "late", "--scope", "all")
      assert.strictEqual(issued.stderr, `There is no project "${projectId}"\n`)
      assert.strictEqual((yield* Effect.exit(apply(projectId)))._tag, "Failure")
      assert.strictEqual((yield* command(projectId, projectId)).status, 0)
      assert.deepStrictEqual(yield* tablesOf(projectId), [])
    }
  )

  it.effect("is the only way: a project that is not marked, or has rows, can't be removed", function* () {
    const { seed } = yield* World
    const { sql } = yield* TestServer
    const { projectId } = yield* seed()
    const exit = () => Effect.exit(sql`DELETE FROM projects WHERE project_id = ${projectId}`)
    assert.strictEqual((yield* exit())._tag, "Failure")
    yield* sql`UPDATE projects SET deleted_at = now() WHERE project_id = ${projectId}`
    assert.strictEqual((yield* exit())._tag, "Failure")
  })
})
