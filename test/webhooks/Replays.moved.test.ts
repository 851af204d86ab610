/** Commands on webhooks and deliveries of a project that another database takes over meanwhile (contract §18). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { SqlClient } from "effect/sql"
import { cli, failure } from "../cli/Cli.support.ts"
import { subscribe } from "../support/Events.ts"
import { untilBlocking } from "../support/Locks.ts"
import { makeProject } from "../support/Projects.ts"
import { put } from "../support/Rows.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

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

layer(TestDatabase.layer, { excludeTestServices: true })("a project that moves to another database", (it) => {
  it.effect("has no command on its webhooks carried out at the source once that has closed the project", function* () {
    const sql = yield* SqlClient.SqlClient
    const shop = ["--installation", "shop"]
    const range = ["--since", "2026-01-01T00:00:00Z", "--until", "2099-01-01T00:00:00Z"]
    for (const [table, command, ...args] of [
      ["replays", "deliveries replay", ...shop, ...range],
      ["replays", "deliveries cancel-replay", "--replay", "rpl_1"],
      ["audit_entries", "webhooks disable", ...shop],
      ["audit_entries", "webhooks enable", ...shop],
      ["audit_entries", "deliveries retry", "--delivery", "dlv_1"]
    ] as const) {
      const id = command.replaceAll(" ", "-")
      yield* openWebhook(id)
      yield* put(sql, "endpoint_health", { project_id: id, installation_id: "shop" })
      yield* sql`UPDATE webhooks SET enabled = ${command !== "webhooks enable"} WHERE project_id = ${id}`
      yield* put(sql, "events", { project_id: id, id: "evt_1" })
      const dead = { id: "dlv_1", event_id: "evt_1", status: "dead", finished_at: "now" }
      yield* put(sql, "deliveries", { project_id: id, installation_id: "shop", ...dead })
      yield* put(sql, "replays", { project_id: id, id: "rpl_1", installation_id: "shop" })
      const state = sql`
        SELECT enabled, version, deliveries.status, replays.id, state
        FROM webhooks JOIN deliveries USING (project_id) JOIN replays USING (project_id) WHERE project_id = ${id}`
      const before = yield* state
      const ended = yield* closedDuring(id, table, ...command.split(" "), ...args)
      assert.deepStrictEqual(ended, failure(1, `There is no project "${id}"`))
      assert.deepStrictEqual(yield* state, before)
    }
  })
})
