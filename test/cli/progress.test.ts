/** What a command that takes its time shows: on a terminal that it is at work, elsewhere nothing but its answer. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as Path from "node:path"
import { TestDatabase } from "../support/TestDatabase.ts"
import { at, start } from "./Cli.support.ts"
import { eventually } from "../support/Waiting.ts"

const entry = Path.resolve(import.meta.dirname, "../../src/cli.ts")
const file = JSON.stringify({ project: { id: "acme", name: "Acme" } })

/** Holds up whoever applies a file of the project, until the scope closes. */
const heldUp = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const connection = yield* sql.reserve
  const execute = (text: string) => connection.execute(text, [], undefined)
  yield* execute("SELECT pg_advisory_lock(hashtextextended('acme', 0))")
  return { release: execute("SELECT pg_advisory_unlock(hashtextextended('acme', 0))") }
})

layer(TestDatabase.layer, { excludeTestServices: true })("a file that takes its time", (it) => {
  it.effect("is seen to be applied on a terminal, and its line goes when it is done", () =>
    Effect.gen(function* () {
      const { url } = yield* TestDatabase
      const { release } = yield* heldUp
      // `script` gives a program a terminal.
      const child = spawn(
        "script",
        ["--quiet", "--return", "--command", `${process.execPath} ${entry} project apply -`, "/dev/null"],
        {
          env: { PATH: process.env["PATH"], ...at(url) }
        }
      )
      let shown = ""
      child.stdout.setEncoding("utf8").on("data", (text: string) => (shown += text))
      const closed = once(child, "close")
      // End of transmission ends the input of a terminal.
      child.stdin.write(`${file}\n\u0004`)
      yield* Effect.promise(() => eventually(() => assert.match(shown, /Applying - … 2 s/)))
      yield* release
      const [status] = yield* Effect.promise(() => closed)
      assert.strictEqual(status, 0, shown)
      assert.include(shown, "\r\u001b[K")
      assert.include(shown, "Project acme is as the file says")
    }).pipe(Effect.scoped)
  )

  it.effect("says nothing of it to a program", () =>
    Effect.gen(function* () {
      const { url } = yield* TestDatabase
      const { release } = yield* heldUp
      const { ended } = yield* start(["project", "apply", "-", "--json"], { env: at(url), stdin: file })
      yield* Effect.sleep("2500 millis")
      yield* release
      const { status, stderr } = yield* ended
      assert.deepStrictEqual([status, stderr], [0, ""])
    }).pipe(Effect.scoped)
  )
})
