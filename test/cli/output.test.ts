/** The output of commands: on a device that is full, on a closed pipe, with text of others, and while a long command runs. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { once } from "node:events"
import * as Path from "node:path"
import { pathOf, requires } from "../support/Programs.ts"
import { makeProject } from "../support/Projects.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import { eventually } from "../support/Waiting.ts"
import { at, cli, documentOf, failure, start } from "./Cli.support.ts"

const full = { output: "/dev/full" }
const lost = "Cannot write standard output (ENOSPC)"

const decodeProjects = Schema.decodeUnknownSync(
  Schema.Struct({ items: Schema.Array(Schema.Struct({ name: Schema.String })) })
)

layer(TestDatabase.layer, { excludeTestServices: true })("the output of a command", (it) => {
  it.effect("fails with one line when it cannot be written", function* () {
    yield* makeProject("acme")
    for (const line of [
      "token issue --project acme --name ci --scope all --json",
      "token list --project acme",
      "project schema",
      "project export --project acme",
      "--help",
      "--version"
    ]) {
      assert.deepStrictEqual(yield* cli(line.split(" "), full), failure(1, lost), line)
    }
  })

  it.effect("says nothing of standard output when the command has failed before it wrote", function* () {
    assert.strictEqual((yield* cli(["project", "exports"], full)).status, 2)
    const nowhere = yield* cli(["token", "list", "--project", "nowhere"], full)
    assert.deepStrictEqual(nowhere, failure(1, 'There is no project "nowhere"'))
  })

  it.effect("may lose what the reader of a pipe does not want", function* () {
    const { url } = yield* TestDatabase
    yield* makeProject("piped")
    for (const line of ["project list", "project schema", "project export --project piped"]) {
      const { child, ended } = yield* start(line.split(" "), { env: at(url) })
      child.stdout.destroy()
      assert.deepStrictEqual(yield* ended, { status: 0, stdout: "", stderr: "" }, line)
    }
  })

  it.effect(
    "has no character of a record that acts on the terminal, turns the direction of text or is invisible",
    function* () {
      const sql = yield* SqlClient.SqlClient
      const name = "a\u202egnp.exe\u2066\u200b\u2028\ufeff\u061c\u{e0041}\u009b31m\u0007z é 🚲"
      yield* makeProject("named")
      yield* sql`UPDATE projects SET name = ${name} WHERE project_id = 'named'`
      const text = yield* cli(["project", "list"])
      assert.match(text.stdout, /^named +a gnp\.exe 31m z é 🚲 +\d{4}-/m)
      const json = yield* cli(["project", "list", "--json"])
      const { items } = decodeProjects(documentOf(json))
      assert.include(
        items.map((item) => item.name),
        name
      )
      const file = JSON.stringify({ project: { id: "x", name: "X" }, members: [{ id: name, name: "" }, { id: name }] })
      const faults = yield* cli(["project", "apply", "-"], { stdin: file })
      const unknown = yield* cli(["project", `\u202e${name}`])
      const member = yield* cli(["token", "issue", "--project", name, "--name", "ci", "--scope", "all"])
      for (const { stderr, stdout } of [text, json, faults, unknown, member]) {
        assert.notMatch(`${stdout}${stderr}`.replaceAll("\n", ""), /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
      }
    }
  )
})

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
