/** The progress of a long command, which is shown on a terminal only. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as Path from "node:path"
import { TestDatabase } from "../support/TestDatabase.ts"
import { at, start } from "./Cli.support.ts"
import { pathOf, requires } from "../support/Programs.ts"
import { eventually } from "../support/Waiting.ts"

const entry = Path.resolve(import.meta.dirname, "../../src/cli.ts")
const file = JSON.stringify({ project: { id: "acme", name: "Acme" } })

/** Holds the lock that an apply of the project takes, until `release` or the end of the scope. */
const locked = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const connection = yield* sql.reserve
  const execute = (text: string) => connection.execute(text, [], undefined)
  yield* execute("SELECT pg_advisory_lock(hashtextextended('acme', 0))")
  return { release: execute("SELECT pg_advisory_unlock(hashtextextended('acme', 0))") }
})

layer(TestDatabase.layer, { excludeTestServices: true })("the progress of `project apply` on a terminal", (it) => {
  requires("script")

  it.effect("is shown after two seconds, there alone, and its line is erased when the file is applied", function* () {
    const { url } = yield* TestDatabase
    const { release } = yield* locked
    const silent = yield* start(["project", "apply", "-", "--json"], { env: at(url), stdin: file })
    // `script` runs a program on a pseudo-terminal.
    const child = spawn(
      pathOf("script"),
      ["--quiet", "--return", "--command", `${process.execPath} ${entry} project apply -`, "/dev/null"],
      { env: { PATH: process.env["PATH"], ...at(url) } }
    )
    let shown = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => (shown += text))
    const closed = once(child, "close")
    // End of transmission ends the input of a terminal.
    child.stdin.write(`${file}\n\u0004`)
    yield* Effect.promise(() => eventually(() => assert.match(shown, /Applying - … 2 s/)))
    yield* Effect.sleep("500 millis")
    yield* release
    // Without a terminal nothing is shown.
    const { status: exit, stderr } = yield* silent.ended
    assert.deepStrictEqual([exit, stderr], [0, ""])
    const [status] = yield* Effect.promise(() => closed)
    assert.strictEqual(status, 0, shown)
    assert.include(shown, "\r\u001b[K")
    assert.include(shown, "Project acme is as the file says")
  })
})
