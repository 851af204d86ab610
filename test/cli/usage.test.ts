/** The usage of commands: their help, and the messages about wrong usage. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { scopes } from "../../src/api/Access.ts"
import { failure, run } from "./Cli.support.ts"

const name = "npm run --silent cli --"
const see = (...path: ReadonlyArray<string>) => `; see ${[name, ...path, "--help"].join(" ")}`
const durations = "Expected: a duration longer than nothing, such as 250ms, 5s, 2m, 24h or 7d"
const day = ["--since", "2026-11-20T00:00:00Z", "--until", "2026-11-21T00:00:00Z"]
const replay = ["deliveries", "replay", "--project", "p", "--installation", "i", ...day]
const issue = ["token", "issue", "--project", "p", "--name", "n"]

/** A wrong use of a command: the arguments below it, the message, and the path of the help to which it refers. */
interface Misuse {
  readonly args: ReadonlyArray<string>
  readonly line: string
  readonly path: ReadonlyArray<string>
}
const misuses = (command: string, rows: ReadonlyArray<Misuse>) =>
  rows.map(({ args, line, path }) => ({ args: [command, ...args], line: line + see(command, ...path) }))

const listDeliveries = ["list", "--project", "p"]
const states = ["pending", "delivering", "delivered", "dead"]
const expectedStates = `Expected: ${states.map((state) => `"${state}"`).join(" | ")}`
const deliveries = misuses("deliveries", [
  { args: [], line: "A command is missing", path: [] },
  { args: ["undo", "--project", "p"], line: "Unknown command: undo", path: [] },
  { args: ["retry", "--project", "p"], line: "Missing required flag: --delivery", path: ["retry"] },
  { args: ["list"], line: "Missing required flag: --project", path: ["list"] },
  ...["deadly", "DEAD", "dead,pending"].map((state) => ({
    args: [...listDeliveries, "--status", state],
    line: `Invalid value for flag --status: "${state}". ${expectedStates}`,
    path: ["list"]
  })),
  {
    args: [...listDeliveries, "--status", ""],
    line: `Missing value for flag --status. ${expectedStates}`,
    path: ["list"]
  },
  {
    args: [...listDeliveries, "--status", "dead", "--status", "pending"],
    line: 'Invalid value for flag --status: "2 occurrences". Expected: at most 1 value',
    path: ["list"]
  },
  { args: [...listDeliveries, "--delivery", "d"], line: "Unknown flag: --delivery", path: ["list"] },
  { args: ["show", "--project", "p"], line: "Missing required flag: --delivery", path: ["show"] },
  { args: ["show", "--delivery", "d"], line: "Missing required flag: --project", path: ["show"] }
])

const aboutTask = ["--project", "--title", "--deal", "--client", "--due"]
const newTask = ["create", "--project", "p", "--title"]
const instant = "an instant of RFC 3339, such as 2026-11-20T10:00:00Z"
const size = "a string of 1 to 160 characters"
const long = "😀".repeat(161)
const tasks = misuses("task", [
  { args: [], line: "A command is missing", path: [] },
  { args: ["delete"], line: "Unknown command: delete", path: [] },
  { args: ["create", "--title", "A"], line: "Missing required flag: --project", path: ["create"] },
  { args: ["create", "--project", "p"], line: "Missing required flag: --title", path: ["create"] },
  { args: [...newTask, ""], line: `Missing value for flag --title. Expected: ${size}`, path: ["create"] },
  { args: [...newTask, long], line: `Invalid value for flag --title: "${long}". Expected: ${size}`, path: ["create"] },
  {
    args: [...newTask, "A", "--due", ""],
    line: `Missing value for flag --due. Expected: ${instant}`,
    path: ["create"]
  },
  // Refused: words, a date alone, a time without an offset, and a day that the calendar lacks.
  ...["tomorrow", "2026-12-01", "2026-12-01T09:00:00", "2026-02-29T09:00:00Z"].map((due) => ({
    args: [...newTask, "A", "--due", due],
    line: `Invalid value for flag --due: "${due}". Expected: ${instant}`,
    path: ["create"]
  })),
  { args: [...newTask, "A", "--assignee", "m"], line: "Unknown flag: --assignee", path: ["create"] },
  { args: ["complete", "--project", "p"], line: "Missing required flag: --task", path: ["complete"] },
  { args: ["complete", "--task", "t"], line: "Missing required flag: --project", path: ["complete"] }
])

describe("help", () => {
  it.effect.each([
    { args: [], words: ["project", "token", "migrate", "serve"] },
    { args: ["project"], words: ["apply", "schema", "delete"] },
    { args: ["project", "apply"], words: ["FILE", "standard input", "--json", "EXAMPLES"] },
    { args: ["project", "schema"], words: ["JSON Schema", "EXAMPLES"] },
    { args: ["project", "delete"], words: ["--project", "--confirm", "--json", "EXAMPLES"] },
    { args: ["token"], words: ["issue", "list", "revoke", "rotate"] },
    {
      args: ["token", "issue"],
      words: ["--project", "--name", "--scope", "--expires-in", "90d", "--member", "--json", "EXAMPLES", ...scopes]
    },
    { args: ["token", "list"], words: ["--project", "--json", "EXAMPLES"] },
    { args: ["token", "revoke"], words: ["--key", "--json", "EXAMPLES"] },
    { args: ["token", "rotate"], words: ["--key", "--grace", "24h", "--json", "EXAMPLES"] },
    { args: ["messages"], words: ["list", "settle"] },
    { args: ["messages", "list"], words: ["--project", "--status", "unknown", "--json", "EXAMPLES"] },
    { args: ["messages", "settle"], words: ["--project", "--message", "--as", "sent", "failed", "--json", "EXAMPLES"] },
    { args: ["deliveries"], words: ["list", "show", "retry", "replay", "replays", "cancel-replay"] },
    {
      args: ["deliveries", "replay"],
      words: [
        "--installation",
        "--since",
        "--until",
        "--type",
        "--status",
        "dead",
        "--pace",
        "50",
        "--dry-run",
        "EXAMPLES"
      ]
    },
    {
      args: ["deliveries", "list"],
      words: ["--project", "--installation", "--status", ...states, "--json", "EXAMPLES"]
    },
    { args: ["deliveries", "show"], words: ["--project", "--delivery", "--json", "EXAMPLES"] },
    {
      args: ["listen"],
      words: ["--port", "8080", "--forward-to", "--secret", "--fail", "--json", "SIGINT", "EXAMPLES"]
    },
    { args: ["task"], words: ["create", "complete"] },
    { args: ["task", "create"], words: [...aboutTask, "RFC 3339", "--json", "EXAMPLES", "crm.task.created.v1"] },
    { args: ["task", "complete"], words: ["--project", "--task", "--json", "EXAMPLES", "crm.task.completed.v1"] },
    { args: ["webhooks"], words: ["list", "test", "enable", "disable"] },
    { args: ["webhooks", "test"], words: ["--installation", "webhook.test.v1", "--json", "EXAMPLES"] },
    { args: ["audit", "list"], words: ["--project", "--json", "EXAMPLES"] },
    { args: ["console"], words: ["10 minutes", "--json", "EXAMPLES"] },
    { args: ["migrate"], words: ["migrations", "--json", "EXAMPLES"] },
    { args: ["doctor"], words: ["settings", "Redis", "--json", "EXAMPLES"] },
    { args: ["serve"], words: ["--role", "all", "api", "worker", "EXAMPLES"] }
  ])("of `$args`", ({ args, words }) =>
    Effect.gen(function* () {
      // Help ignores the settings.
      const { status, stderr, stdout } = yield* run([...args, "--help"], { env: { PORT: "x" } })
      assert.strictEqual(status, 0)
      assert.strictEqual(stderr, "")
      assert.include(stdout, [name, ...args].join(" "))
      for (const word of words) assert.include(stdout, word)
    })
  )

  it.effect("describes the options of `npm start`", () =>
    Effect.gen(function* () {
      const { status, stdout } = yield* run(["--help"], { entry: "main.ts" })
      assert.strictEqual(status, 0)
      assert.include(stdout, "npm start -- --role api")
    })
  )

  it.effect("prints the version", () =>
    Effect.gen(function* () {
      const { status, stdout } = yield* run(["--version"])
      assert.strictEqual(status, 0)
      assert.match(stdout, /^\d+\.\d+\.\d+\n$/)
    })
  )
})

describe("a command line", () => {
  it.effect("loads the modules of the command that it names, and no others", () =>
    Effect.gen(function* () {
      const hooks = `import { registerHooks } from "node:module"
        registerHooks({ load: (url, context, next) => (console.error(url), next(url, context)) })`
      const loaded = yield* run(["token", "list", "--help"], { hooks })
      assert.strictEqual(loaded.status, 0)
      assert.include(loaded.stderr, "/src/cli/token.ts")
      const others =
        /\/src\/(cli\/(?!Commands|Flags|OnDatabase|Output|Runner|token)|crm|messaging|campaigns|integrations|project|server|console)/
      assert.deepStrictEqual(
        loaded.stderr.split("\n").filter((url) => others.test(url)),
        []
      )
    })
  )
})

describe("wrong usage", () => {
  it.effect.each([
    { args: [], line: `A command is missing${see()}` },
    { args: ["token"], line: `A command is missing${see("token")}` },
    { args: ["tokne", "issue", "--project", "p"], line: `Unknown command: tokne (did you mean token?)${see()}` },
    { args: ["token", "delete", "--key", "k"], line: `Unknown command: delete${see("token")}` },
    { args: ["migrate", "now"], line: `Unexpected positional argument: "now"${see("migrate")}` },
    { args: ["migrate", "--fast"], line: `Unknown flag: --fast${see("migrate")}` },
    { args: ["migrate", "--no-json"], line: `Unknown flag: --no-json${see("migrate")}` },
    { args: ["project", "apply"], line: `Missing required argument: file${see("project", "apply")}` },
    { args: ["token", "list"], line: `Missing required flag: --project${see("token", "list")}` },
    {
      args: ["token", "list", "--projct", "p", "-x"],
      line: `Unknown flag: --projct (did you mean --project?); Unknown flag: -x${see("token", "list")}`
    },
    {
      args: ["token", "list", "--project", "p", "--project", "q"],
      line: `Invalid value for flag --project: "2 occurrences". Expected: at most 1 value${see("token", "list")}`
    },
    { args: issue, line: `Missing required flag: --scope${see("token", "issue")}` },
    {
      args: [...issue, "--scope", "crm.everything"],
      line: `Invalid value for flag --scope: "crm.everything". Expected: ${[...scopes, "all"].map((scope) => `"${scope}"`).join(" | ")}${see("token", "issue")}`
    },
    {
      args: [...issue, "--scope", "all", "--expires-in", "3 weeks"],
      line: `Invalid value for flag --expires-in: "3 weeks". ${durations}${see("token", "issue")}`
    },
    {
      args: [...issue, "--scope", "all", "--expires-in=-1d"],
      line: `Invalid value for flag --expires-in: "-1d". ${durations}${see("token", "issue")}`
    },
    {
      args: ["token", "issue", "--project", "p", "--scope", "all", "--name", "x".repeat(161)],
      line: `Invalid value for flag --name: "${"x".repeat(161)}". Expected: a string of 1 to 160 characters${see("token", "issue")}`
    },
    {
      args: ["token", "rotate", "--key", "k", "--grace", "0s"],
      line: `Invalid value for flag --grace: "0s". ${durations}${see("token", "rotate")}`
    },
    {
      args: ["token", "rotate", "--key", "k", "--grace", "1w"],
      line: `Invalid value for flag --grace: "1w". ${durations}${see("token", "rotate")}`
    },
    {
      args: ["deliveries", "replay", "--project", "p", "--installation", "i", "--since", "yesterday", "--until", "now"],
      line: `Invalid value for flag --since: "yesterday". Expected: an instant of RFC 3339, such as 2026-11-20T10:00:00Z${see("deliveries", "replay")}`
    },
    {
      args: [...replay, "--pace", "0"],
      line: `Invalid value for flag --pace: "0". Expected: an integer from 1 to 1000${see("deliveries", "replay")}`
    },
    {
      args: ["listen", "--secret", "correct horse battery staple"],
      line: `Invalid value for flag --secret: "…". Expected: whsec_ and base64${see("listen")}`
    },
    {
      args: ["listen", "--forward-to", "127.0.0.1:4000"],
      line: `Invalid value for flag --forward-to: "127.0.0.1:4000". Expected: a URL that starts with http:// or https://${see("listen")}`
    },
    {
      args: ["serve", "--role", "boss"],
      line: `Invalid value for flag --role: "boss". Expected: "all" | "api" | "worker"${see("serve")}`
    },
    ...deliveries,
    ...tasks
  ])("`$args`", ({ args, line }) =>
    // The usage is checked before the settings.
    Effect.map(run(args, { env: { PORT: "x" } }), (ended) => assert.deepStrictEqual(ended, failure(2, line)))
  )
})
