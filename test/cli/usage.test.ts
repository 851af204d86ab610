/** The usage of commands: their help, and the messages about wrong usage. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { scopes } from "../../src/api/Access.ts"
import { failure, run } from "./Cli.support.ts"

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
  assert.include(loaded.stderr, "/src/cli/commands/token.ts")
  const others =
    /\/src\/(cli\/(?!Commands|Flags|OnDatabase|Output|Runner|commands\/token)|crm|messaging|campaigns|integrations|project|server|console)/
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
