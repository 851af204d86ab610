/** `project`: its files, and the printed counts and faults. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, FileSystem, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { NodeServices } from "@effect/platform-node"
import { execFileSync } from "node:child_process"
import { jsonSchema } from "../../src/project/ProjectFile.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import { assertMatches } from "../support/Matches.ts"
import { cli, documentOf, failure, run } from "./Cli.support.ts"

const file = (id: string) => JSON.stringify({ project: { id, name: "Acme" }, members: [{ id: "anna", name: "Anna" }] })
const one = { project: 1, members: 1 }
const none = { project: 0, members: 0 }
const apply = (stdin: string | Uint8Array, ...flags: ReadonlyArray<string>) =>
  cli(["project", "apply", "-", ...flags], { stdin })

const decodeExported = Schema.decodeUnknownSync(Schema.Struct({ records: Schema.Record(Schema.String, Schema.Finite) }))

const toOutput = (id: string, path: string, ...flags: ReadonlyArray<string>) =>
  cli(["project", "export", "--project", id, "--output", path, ...flags])

layer(Layer.merge(TestDatabase.layer, NodeServices.layer), { excludeTestServices: true })(
  "the command `project`",
  (it) => {
    it.effect("applies a file, and changes nothing the second time", function* () {
      const fs = yield* FileSystem.FileSystem
      const path = yield* fs.makeTempFileScoped({ suffix: ".json" })
      yield* fs.writeFileString(path, file("by-path"))
      const first = documentOf(yield* cli(["project", "apply", path, "--json"]))
      assert.deepStrictEqual(first, { projectId: "by-path", created: one, updated: none, unchanged: none })
      const second = documentOf(yield* apply(file("by-path"), "--json"))
      assert.deepStrictEqual(second, { projectId: "by-path", created: none, updated: none, unchanged: one })
    })

    it.effect("prints the counts in a table", function* () {
      const { status, stderr, stdout } = yield* apply(file("table"))
      assert.strictEqual(status, 0)
      // Without a terminal no progress is shown.
      assert.strictEqual(stderr, "")
      assert.deepStrictEqual(stdout.split("\n"), [
        "Project table is as the file says.",
        "",
        "MEMBER   CREATED  UPDATED  UNCHANGED",
        "project  1        0        0",
        "members  1        0        0",
        ""
      ])
    })

    it.effect("lists all projects by id, in pages", function* () {
      for (const id of ["list-3", "list-1", "list-2"]) yield* apply(file(id))
      const list = (...flags: ReadonlyArray<string>) => cli(["project", "list", "--limit", "2", ...flags])
      const createdAt = /^\d{4}-.*Z$/
      assertMatches(documentOf(yield* list("--after", "list-", "--json")), {
        items: [
          { projectId: "list-1", name: "Acme", createdAt },
          { projectId: "list-2", name: "Acme", createdAt }
        ],
        next: "list-2"
      })
      const rest = yield* list("--after", "list-2")
      assert.match(rest.stdout, /^PROJECT ID +NAME +CREATED AT\nlist-3 +Acme +\d{4}-.*Z\n/)
      assert.include((yield* list("--after", "\u{10ffff}")).stdout, "No projects")
    })

    it.effect("fails with a line for each fault", function* () {
      const { status, stderr, stdout } = yield* apply('{"project": {"name": ""}, "membres": []}', "--json")
      assert.strictEqual(status, 1)
      assert.strictEqual(stdout, "")
      const lines = stderr.trimEnd().split("\n")
      assert.lengthOf(lines, 3)
      for (const member of ["id", "name", "membres"]) assert.isTrue(lines.some((line) => line.includes(member)))
    })

    it.effect("fails with one line for a file that can't be read", function* () {
      const missing = yield* cli(["project", "apply", "/does/not/exist.json"])
      assert.deepStrictEqual(missing, failure(1, "Cannot read /does/not/exist.json (it does not exist)"))
      const binary = yield* apply(Uint8Array.of(0x22, 0xff, 0x22))
      assert.deepStrictEqual(binary, failure(1, "Cannot read - (it is not UTF-8)"))
      const empty = yield* apply("")
      assert.strictEqual(empty.status, 1)
      assert.lengthOf(empty.stderr.trimEnd().split("\n"), 1)
    })

    it.effect("exports a project to a file, and leaves no part of a file that fails", function* () {
      const fs = yield* FileSystem.FileSystem
      const directory = yield* fs.makeTempDirectoryScoped()
      const path = `${directory}/out.json`
      yield* apply(file("moved"))
      const { stderr, stdout } = yield* toOutput("moved", path, "--json")
      assert.strictEqual(stderr, "")
      assert.deepInclude(JSON.parse(stdout).records, { ...one, clients: 0 })
      assert.strictEqual((yield* fs.stat(path)).mode & 0o777, 0o600)
      const again = documentOf(yield* cli(["project", "apply", path, "--json"]))
      assert.deepInclude(again, { unchanged: JSON.parse(stdout).records })
      const before = yield* fs.readFileString(path)
      assert.strictEqual((yield* toOutput("nowhere", path)).status, 1)
      assert.strictEqual(yield* fs.readFileString(path), before)
      assert.deepStrictEqual(yield* fs.readDirectory(directory), ["out.json"])
      const missing = `${directory}/none/out.json`
      assert.deepStrictEqual(
        yield* toOutput("moved", missing),
        failure(1, `Cannot write ${missing} (its folder does not exist)`)
      )
      assert.deepStrictEqual(yield* toOutput("moved", "/dev/full"), failure(1, "Cannot write /dev/full (ENOSPC)"))
    })

    it.effect("exports a project to a pipe, which is written in place", function* () {
      const fs = yield* FileSystem.FileSystem
      const pipe = `${yield* fs.makeTempDirectoryScoped()}/pipe`
      execFileSync("mkfifo", [pipe])
      yield* apply(file("piped"))
      // The reader of a pipe waits for its writer.
      const [text, ended] = yield* Effect.all([fs.readFileString(pipe), toOutput("piped", pipe, "--json")], {
        concurrency: "unbounded"
      })
      const { records } = decodeExported(documentOf(ended))
      const again = documentOf(yield* apply(text, "--json"))
      assert.deepInclude(again, { unchanged: records })
    })

    it.effect(
      "of no kind serves a project that is missing, being deleted, or served by another database",
      function* () {
        const sql = yield* SqlClient.SqlClient
        for (const id of ["arriving", "deleted"]) yield* apply(file(id))
        yield* sql`UPDATE projects SET move_state = 'arriving' WHERE project_id = 'arriving'`
        yield* sql`UPDATE projects SET deleted_at = now() WHERE project_id = 'deleted'`
        const period = "--since 2026-11-20T00:00:00Z --until 2026-11-21T00:00:00Z"
        const commands = [
          "project export",
          "token issue --name n --scope all",
          "token list",
          "task create --title t",
          "task complete --task t",
          "deliveries list",
          "deliveries show --delivery d",
          "deliveries retry --delivery d",
          `deliveries replay --installation i ${period}`,
          "deliveries replays",
          "deliveries cancel-replay --replay r",
          "webhooks list",
          "webhooks test --installation i",
          "webhooks enable --installation i",
          "webhooks disable --installation i",
          "messages list",
          "messages settle --message m --as sent",
          "audit list"
        ]
        for (const id of ["missing", "arriving", "deleted"]) {
          for (const command of commands) {
            const ended = yield* cli([...command.split(" "), "--project", id])
            assert.deepStrictEqual(ended, failure(1, `There is no project "${id}"`), command)
          }
        }
      }
    )

    it.effect("prints the JSON Schema, with or without a database", function* () {
      const nowhere = { env: { DATABASE_URL: "nowhere" } }
      assert.deepStrictEqual(documentOf(yield* run(["project", "schema"], nowhere)), jsonSchema)
      assert.deepStrictEqual(documentOf(yield* run(["project", "schema", "--json"], nowhere)), jsonSchema)
    })
  }
)
