/** Commands on webhooks and deliveries of a project that another database takes over meanwhile (contract §18). */
import { assert, layer } from "../../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { cli, failure } from "../../cli/Cli.support.ts"
import { subscribe } from "../../support/Events.ts"
import { untilBlocking } from "../../support/Locks.ts"
import { makeProject } from "../../support/Projects.ts"
import { put } from "../../support/Rows.ts"
import { TestDatabase } from "../../support/TestDatabase.ts"

const openWebhook = Effect.fnUntraced(function* (projectId: string) {
  const sql = yield* SqlClient.SqlClient
  yield* makeProject(projectId)
  yield* subscribe(sql, projectId, "shop", ["crm.deal.created.v1"])
})

/** Runs a command that finds the project here, and then waits for a table until the project is closed. */
const closedDuring = Effect.fnUntraced(function* (projectId: string, table: string, ...args: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const command = yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* sql`LOCK TABLE ${sql(table)} IN ACCESS EXCLUSIVE MODE`
      const command = yield* Effect.forkDetach(cli([...args, "--project", projectId, "--json"]))
      yield* untilBlocking(sql)
      yield* sql`UPDATE projects SET move_state = 'switching' WHERE project_id = ${projectId}`
      return command
    })
  )
  return yield* Fiber.join(command)
})

layer(TestDatabase.layer, { excludeTestServices: true })(
  "a replay of a project that moves to another database",
  (it) => {
    it.effect("is not started once the source has closed the project", function* () {
      const sql = yield* SqlClient.SqlClient
      yield* openWebhook("counted")
      const range = ["--since", "2026-01-01T00:00:00Z", "--until", "2099-01-01T00:00:00Z"]
      const ended = yield* closedDuring(
        "counted",
        "replays",
        "deliveries",
        "replay",
        "--installation",
        "shop",
        ...range
      )
      assert.deepStrictEqual(ended, failure(1, 'There is no project "counted"'))
      assert.deepStrictEqual(yield* sql`SELECT id FROM replays`, [])
    })

    it.effect("is not cancelled at the source once that has closed the project", function* () {
      const sql = yield* SqlClient.SqlClient
      yield* openWebhook("replaying")
      yield* put(sql, "replays", { project_id: "replaying", id: "rpl_1", installation_id: "shop" })
      const ended = yield* closedDuring("replaying", "replays", "deliveries", "cancel-replay", "--replay", "rpl_1")
      assert.deepStrictEqual(ended, failure(1, 'There is no project "replaying"'))
      assert.deepStrictEqual(yield* sql`SELECT state FROM replays`, [{ state: "running" }])
    })

    it.effect(
      "has no webhook changed and no delivery retried at the source once that has closed the project",
      function* () {
        const sql = yield* SqlClient.SqlClient
        for (const command of ["webhooks disable", "webhooks enable", "deliveries retry"]) {
          const id = command.replaceAll(" ", "-")
          yield* openWebhook(id)
          yield* put(sql, "endpoint_health", { project_id: id, installation_id: "shop" })
          yield* sql`UPDATE webhooks SET enabled = ${!command.endsWith("enable")} WHERE project_id = ${id}`
          yield* put(sql, "events", { project_id: id, id: "evt_1" })
          const dead = { id: "dlv_1", event_id: "evt_1", status: "dead", finished_at: "now" }
          yield* put(sql, "deliveries", { project_id: id, installation_id: "shop", ...dead })
          const state = sql`
            SELECT enabled, version, status FROM webhooks JOIN deliveries USING (project_id) WHERE project_id = ${id}`
          const before = yield* state
          const record = command.startsWith("webhooks") ? ["--installation", "shop"] : ["--delivery", "dlv_1"]
          const ended = yield* closedDuring(id, "audit_entries", ...command.split(" "), ...record)
          assert.deepStrictEqual(ended, failure(1, `There is no project "${id}"`))
          assert.deepStrictEqual(yield* state, before)
        }
      }
    )
  }
)
