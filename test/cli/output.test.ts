/** The output of commands, in processes of their own: on a device that is full, and on a pipe that its reader has closed. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeProject } from "../support/Projects.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import { at, cli, failure, start } from "./Cli.support.ts"

const full = { output: "/dev/full" }
const lost = "Cannot write standard output (ENOSPC)"

layer(TestDatabase.layer, { excludeTestServices: true })("the output of a command", (it) => {
  it.effect("fails with one line when it cannot be written", () =>
    Effect.gen(function* () {
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
  )

  it.effect("says nothing of standard output when the command has failed before it wrote", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* cli(["project", "exports"], full)).status, 2)
      const nowhere = yield* cli(["token", "list", "--project", "nowhere"], full)
      assert.deepStrictEqual(nowhere, failure(1, 'There is no project "nowhere"'))
    })
  )

  it.effect("may lose what the reader of a pipe does not want", () =>
    Effect.gen(function* () {
      const { url } = yield* TestDatabase
      const { child, ended } = yield* start(["project", "list"], { env: at(url) })
      child.stdout.destroy()
      assert.deepStrictEqual(yield* ended, { status: 0, stdout: "", stderr: "" })
    }).pipe(Effect.scoped)
  )
})
