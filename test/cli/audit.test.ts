/** The audit: every command that changes something leaves an entry with the user who ran it (contract §13). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { userInfo } from "node:os"
import { TestDatabase } from "../support/TestDatabase.ts"
import { cli, documentOf, failure } from "./Cli.support.ts"
import { makeProject } from "../support/Projects.ts"

const Entry = Schema.Struct({ actor: Schema.String, action: Schema.String, target: Schema.String })
const decodeEntries = Schema.decodeUnknownSync(Schema.Struct({ items: Schema.Array(Entry) }))
const Found = Schema.Struct({ kind: Schema.String, projectId: Schema.String, id: Schema.String, name: Schema.String })
const decodeFound = Schema.decodeUnknownSync(Schema.Struct({ items: Schema.Array(Found) }))
const decodeKey = Schema.decodeUnknownSync(Schema.Struct({ keyId: Schema.String }))
const decodeTask = Schema.decodeUnknownSync(Schema.Struct({ taskId: Schema.String }))

layer(TestDatabase.layer, { excludeTestServices: true })("the audit", (it) => {
  it.effect(
    "has every command that changes something, with the user who ran it, and none that changes nothing",
    function* () {
      const file = JSON.stringify({ project: { id: "audited", name: "Audited" } })
      const of = ["--project", "audited"]
      const command = (line: string, stdin = "") => cli([...line.split(" "), "--json"], { stdin })
      const audit = (...flags: ReadonlyArray<string>) =>
        Effect.map(cli(["audit", "list", ...flags, "--json"]), (ended) =>
          decodeEntries(documentOf(ended)).items.toReversed()
        )

      for (const _ of [1, 2]) yield* command("project apply -", file)
      const issued = yield* command("token issue --project audited --name ci --scope all")
      const { keyId } = decodeKey(documentOf(issued))
      yield* command(`token rotate --key ${keyId}`)
      yield* command(`token revoke --key ${keyId}`)
      const { taskId } = decodeTask(documentOf(yield* command("task create --project audited --title Call")))
      yield* command(`task complete --project audited --task ${taskId}`)
      yield* command("token list --project audited")
      const actor = userInfo().username
      assert.deepStrictEqual(
        yield* audit(...of),
        [
          ["project.apply", "audited"],
          ["key.issue", keyId],
          ["key.rotate", keyId],
          ["key.revoke", keyId],
          ["task.create", taskId],
          ["task.complete", taskId]
        ].map(([action = "", target = ""]) => ({ actor, action, target }))
      )

      const found = (line: string) =>
        Effect.map(command(`find ${line}`), (ended) => decodeFound(documentOf(ended)).items)
      const task = { kind: "task", projectId: "audited", id: taskId, name: "Call" }
      assert.deepStrictEqual(yield* found(taskId), [task])
      assert.deepStrictEqual(yield* found(`${taskId.slice(0, -3)} --project audited`), [task])
      assert.deepStrictEqual(yield* found(`${taskId} --project other`), [])
      const sql = yield* SqlClient.SqlClient
      yield* sql`
      INSERT INTO idempotency_keys (project_id, key, fingerprint, resource_id, changed, created_at)
      VALUES ('audited', 'order-4711', '', ${taskId}, true, now())`
      assert.deepStrictEqual(yield* found("order-4711"), [{ ...task, kind: "command", id: "order-4711", name: taskId }])

      yield* command("secrets reseal")
      yield* command("project delete --project audited --confirm audited")
      assert.deepStrictEqual(yield* audit(), [
        { actor, action: "secrets.reseal", target: "secrets" },
        { actor, action: "project.delete.begin", target: "audited" },
        { actor, action: "project.delete", target: "audited" }
      ])
    }
  )
})

const keyIdOf = Schema.decodeUnknownSync(Schema.Struct({ keyId: Schema.String }))
const inCell = { env: { CELL: "9z" } }

layer(TestDatabase.layer, { excludeTestServices: true })("the command `cells map`", (it) => {
  it.effect(
    "lists the keys that do not begin with the cell, which keys that are issued or rotated there do",
    function* () {
      yield* makeProject("map")
      const issue = (options?: { readonly env: Record<string, string> }) =>
        cli(["token", "issue", "--project", "map", "--name", "ci", "--scope", "all", "--json"], options)
      const idOf = (ended: Parameters<typeof documentOf>[0]) => keyIdOf(documentOf(ended)).keyId
      assert.deepStrictEqual(yield* cli(["cells", "map"], inCell), { status: 0, stdout: "", stderr: "" })

      const issued = idOf(yield* issue(inCell))
      const rotated = idOf(yield* cli(["token", "rotate", "--key", issued, "--json"], inCell))
      assert.deepStrictEqual(
        [issued, rotated].map((id) => id.slice(0, 2)),
        ["9z", "9z"]
      )
      // The same characters in another case are another cell.
      const others = [idOf(yield* issue({ env: { CELL: "9Z" } })), idOf(yield* issue({ env: { CELL: "02" } }))]
      assert.deepStrictEqual(yield* cli(["cells", "map"], inCell), {
        status: 0,
        stdout: others.toSorted().reduce((text, id) => `${text}${id} 9z\n`, ""),
        stderr: ""
      })
      assert.deepStrictEqual(documentOf(yield* cli(["cells", "map", "--json"], inCell)), {
        items: others.toSorted().map((keyId) => ({ keyId, cell: "9z" }))
      })
    }
  )

  it.effect("fails without CELL, and with one that is no name of a cell", function* () {
    assert.deepStrictEqual(
      yield* cli(["cells", "map"]),
      failure(1, "CELL is not set: it is the name of this cell, such as CELL=01")
    )
    for (const cell of ["1", "001", "é1", "-1"]) {
      assert.deepStrictEqual(
        yield* cli(["cells", "map"], { env: { CELL: cell } }),
        failure(1, "CELL must be two characters of 0-9, A-Z and a-z")
      )
    }
  })
})
