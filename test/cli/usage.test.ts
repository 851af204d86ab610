/** The usage of commands: their help, and the messages about wrong usage. */
import * as Path from "node:path"
import { assert, describe, it, layer } from "../support/Vitest.ts"
import { Effect, Schema } from "effect"
import { scopes } from "../../src/api/Access.ts"
import { at, cli, documentOf, failure, run, start } from "./Cli.support.ts"
import { SqlClient } from "effect/sql"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { pathOf, requires } from "../support/Programs.ts"
import { makeProject } from "../support/Projects.ts"
import { TestDatabase } from "../support/TestDatabase.ts"
import { eventually } from "../support/Waiting.ts"

const name = "npm run --silent cli --"
const see = (path: string) => `; see ${[name, path, "--help"].filter((word) => word !== "").join(" ")}`
const states = ["pending", "delivering", "delivered", "dead"]

/** The expected values of flags, as the messages about wrong usage show them. */
const oneOf = (...values: ReadonlyArray<string>) => `Expected: ${values.map((value) => `"${value}"`).join(" | ")}`
const durations = "Expected: a duration in ms, s, m, h or d that is longer than zero, such as 250ms, 5s, 2m, 24h or 7d"
const instant = "Expected: an instant of RFC 3339, such as 2026-11-20T10:00:00Z"
const size = "Expected: a string of 1 to 160 characters"

const issue = "token issue --project p"
const list = "deliveries list --project p"
const create = "task create --project p --title"

type Row = readonly [path: string, args: string, problem: string]
const missing = (path: string, args: string, flag: string): Row => [path, args, `Missing required flag: --${flag}`]
const unknown = (path: string, args: string, flag: string): Row => [path, args, `Unknown flag: --${flag}`]
/** A flag at the end of the arguments with a value that it does not take. */
const invalid = (path: string, args: string, value: string, expected: string): Row => [
  path,
  `${args} ${value}`,
  value === ""
    ? `Missing value for flag ${args.split(" ").at(-1)}. ${expected}`
    : `Invalid value for flag ${args.split(" ").at(-1)}: "${value}". ${expected}`
]
const twice = (path: string, args: string, flag: string): Row => [
  path,
  args,
  `Invalid value for flag --${flag}: "2 occurrences". Expected: at most 1 value`
]

/** Wrong usage: the path of the help to which the message refers, the arguments and the problem. */
const wrong: ReadonlyArray<Row> = [
  ["", "", "A command is missing"],
  ["token", "token", "A command is missing"],
  ["", "tokne issue --project p", "Unknown command: tokne (did you mean token?)"],
  ["token", "token delete --key k", "Unknown command: delete"],
  ["project apply", "project apply", "Missing required argument: file"],
  unknown("migrate", "migrate --fast", "fast"),
  unknown("deliveries list", `${list} --delivery d`, "delivery"),
  missing("token list", "token list", "project"),
  missing("deliveries show", "deliveries show --delivery d", "project"),
  missing("task create", "task create --project p", "title"),
  missing("messages settle", "messages settle --project p --as sent", "message"),
  twice("token list", "token list --project p --project q", "project"),
  ...["deadly", "DEAD", "dead,pending", ""].map((state) =>
    invalid("deliveries list", `${list} --status`, state, oneOf(...states))
  ),
  invalid("token issue", `${issue} --name n --scope`, "crm.everything", oneOf(...scopes, "all")),
  invalid("token issue", `${issue} --name n --scope all --expires-in`, "3w", durations),
  invalid("token issue", `${issue} --scope all --name`, "x".repeat(161), size),
  invalid("token rotate", "token rotate --key k --grace", "0s", durations),
  [
    "token issue",
    `${issue} --name n --scope all --expires-in=-1d`,
    `Invalid value for flag --expires-in: "-1d". ${durations}`
  ],
  invalid(
    "deliveries replay",
    "deliveries replay --project p --installation i --until 2026-11-21T00:00:00Z --since",
    "yesterday",
    instant
  ),
  [
    "listen",
    "listen --secret correct-horse-battery-staple",
    'Invalid value for flag --secret: "…". Expected: whsec_ and base64'
  ],
  invalid("listen", "listen --forward-to", "127.0.0.1:4000", "Expected: a URL that starts with http:// or https://"),
  invalid("serve", "serve --role", "boss", oneOf("all", "api", "worker")),
  invalid("messages settle", "messages settle --project p --message m --as", "unknown", 'Expected: "sent" or "failed"'),
  invalid("task create", create, "", size),
  invalid("task create", create, "😀".repeat(161), size),
  // Refused: nothing, a word, a date alone, a time without an offset, and a day that the calendar lacks.
  ...["", "tomorrow", "2026-12-01", "2026-12-01T09:00:00", "2026-02-29T09:00:00Z"].map((due) =>
    invalid("task create", `${create} A --due`, due, instant)
  )
]

/** Words of the help of each command, beside its flags for JSON and its examples. */
const helps: ReadonlyArray<readonly [command: string, words: string]> = [
  ["", "project token migrate serve"],
  ["project apply", "FILE standard_input --json EXAMPLES"],
  ["project schema", "JSON_Schema EXAMPLES"],
  ["project delete", "--project --confirm --json EXAMPLES"],
  ["token issue", `--project --name --scope --expires-in 90d --member --json EXAMPLES ${scopes.join(" ")}`],
  ["token list", "--project --json EXAMPLES"],
  ["token rotate", "--key --grace 24h --json EXAMPLES"],
  ["messages settle", "--project --message --as sent failed --json EXAMPLES"],
  ["deliveries replay", "--installation --since --until --type --status dead --dry-run EXAMPLES"],
  ["deliveries list", `--project --installation --status ${states.join(" ")} --json EXAMPLES`],
  ["listen", "--port 8080 --forward-to --secret --fail --json SIGINT EXAMPLES"],
  ["task create", "--project --title --deal --client --due RFC_3339 --json EXAMPLES crm.task.created.v1"],
  ["campaigns cancel", "--project --campaign --yes --dry-run --json EXAMPLES"],
  ["webhooks test", "--installation webhook.test.v1 --json EXAMPLES"],
  ["console", "10_minutes --json EXAMPLES"],
  ["migrate", "migrations --json EXAMPLES"],
  ["doctor", "settings Redis --json EXAMPLES"],
  ["serve", "--role all api worker EXAMPLES"]
]

const argsOf = (line: string) => (line === "" ? [] : line.split(" "))

describe("help", () => {
  it.effect.each(helps)("of `%s`", function* ([command, words]) {
    // Help ignores the settings.
    const { status, stderr, stdout } = yield* run([...argsOf(command), "--help"], { env: { PORT: "x" } })
    assert.strictEqual(status, 0)
    assert.strictEqual(stderr, "")
    assert.include(stdout, [name, ...argsOf(command)].join(" "))
    for (const word of words.split(" ")) assert.include(stdout, word.replace("_", " "))
  })

  it.effect("describes the options of `npm start`", function* () {
    const { status, stdout } = yield* run(["--help"], { entry: "main.ts" })
    assert.strictEqual(status, 0)
    assert.include(stdout, "npm start -- --role api")
  })

  it.effect("prints the version", function* () {
    const { status, stdout } = yield* run(["--version"])
    assert.strictEqual(status, 0)
    assert.match(stdout, /^\d+\.\d+\.\d+\n$/)
  })
})

it.effect("a command line loads the modules of the command that it names, and no others", function* () {
  const hooks = `import { registerHooks } from "node:module"
    registerHooks({ load: (url, context, next) => (console.error(url), next(url, context)) })`
  const loaded = yield* run(["token", "list", "--help"], { hooks })
  assert.strictEqual(loaded.status, 0)
  assert.include(loaded.stderr, "/src/cli/commands/access.ts")
  const others =
    /\/src\/(cli\/(?!Commands|Flags|OnDatabase|Output|Run|commands\/access)|crm|messaging|campaigns|webhooks|imports|project|operators|service|console)/
  assert.deepStrictEqual(
    loaded.stderr.split("\n").filter((url) => others.test(url)),
    []
  )
})

describe("wrong usage", () => {
  it.effect.each(wrong)("for the help of `%s`: `%s`", ([path, args, problem]) =>
    // The usage is checked before the settings.
    Effect.map(run(argsOf(args), { env: { PORT: "x" } }), (ended) =>
      assert.deepStrictEqual(ended, failure(2, problem + see(path)))
    )
  )

  it.effect(
    "takes the URLs of a move from the environment, where the list of processes does not show them",
    function* () {
      const env = { MOVE_TO: "postgres://127.0.0.1:9/there", MOVE_SOURCE: "nowhere" }
      const expected = "Expected: a URL that starts with postgres:// or postgresql://"
      assert.deepStrictEqual(
        yield* run(["project", "move", "--project", "p"], { env }),
        failure(2, `Invalid value for flag --source: "nowhere". ${expected}${see("project move")}`)
      )
    }
  )
})

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
