/** `deliveries`, wrongly used, and its help (contract §13). */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { failure, run } from "./Cli.support.ts"

describe("deliveries, wrongly used", () => {
  const see = (...path: ReadonlyArray<string>) =>
    `; see npm run --silent cli -- ${["deliveries", ...path, "--help"].join(" ")}`
  const listOf = ["list", "--project", "p"]
  const states = 'Expected: "pending" | "delivering" | "delivered" | "dead"'

  it.effect.each([
    { args: [], line: "A command is missing", path: [] },
    { args: ["undo", "--project", "p"], line: "Unknown command: undo", path: [] },
    { args: ["retry", "--project", "p"], line: "Missing required flag: --delivery", path: ["retry"] },
    { args: ["list"], line: "Missing required flag: --project", path: ["list"] },
    ...["deadly", "DEAD", "dead,pending"].map((state) => ({
      args: [...listOf, "--status", state],
      line: `Invalid value for flag --status: "${state}". ${states}`,
      path: ["list"]
    })),
    { args: [...listOf, "--status", ""], line: `Missing value for flag --status. ${states}`, path: ["list"] },
    {
      args: [...listOf, "--status", "dead", "--status", "pending"],
      line: 'Invalid value for flag --status: "2 occurrences". Expected: at most 1 value',
      path: ["list"]
    },
    { args: [...listOf, "--delivery", "d"], line: "Unknown flag: --delivery", path: ["list"] },
    { args: ["show", "--project", "p"], line: "Missing required flag: --delivery", path: ["show"] },
    { args: ["show", "--delivery", "d"], line: "Missing required flag: --project", path: ["show"] }
  ])("$line", ({ args, line, path }) =>
    // This is checked before anything else.
    Effect.map(run(["deliveries", ...args], { env: { PORT: "x" } }), (ended) =>
      assert.deepStrictEqual(ended, failure(2, line + see(...path)))
    )
  )
})

describe("the help of deliveries", () => {
  const states = ["pending", "delivering", "delivered", "dead"]
  it.effect.each([
    { args: [], says: ["list", "show"] },
    { args: ["list"], says: ["--project", "--installation", "--status", ...states, "--json", "EXAMPLES"] },
    { args: ["show"], says: ["--project", "--delivery", "--json", "EXAMPLES"] }
  ])("`$args`", ({ args, says }) =>
    Effect.gen(function* () {
      const { status, stderr, stdout } = yield* run(["deliveries", ...args, "--help"], { env: { PORT: "x" } })
      assert.deepStrictEqual([status, stderr], [0, ""])
      for (const word of says) assert.include(stdout, word)
    })
  )
})
