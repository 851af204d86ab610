/**
 * `npm run test:mutations`: runs mutations against their tests, and lists the survivors. First the tests run once without any
 * mutation. The exit code is 1 unless all mutations are caught. Verdicts:
 *
 * - caught: a test fails.
 * - survived: no test fails.
 * - timed out: no test fails, but one reaches its time limit; of a mutation that `hangs`: caught.
 * - fails without: a test file fails without the mutation as well.
 * - not applicable: the text is no longer in the source, or a test file is missing.
 */
import { NodeRuntime, NodeServices } from "@effect/platform-node"
import { Console, Effect, Schema } from "effect"
import { Argument, Command } from "effect/cli"
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { join } from "node:path"
import { text } from "node:stream/consumers"
import { count } from "../bench/Options.ts"
import { judges } from "../support/Judges.ts"
import { applies, mutations, pathOf } from "./All.ts"
import type { Failure } from "./Failures.ts"
import type { Mutation } from "./Mutation.ts"

const root = join(import.meta.dirname, "../..")

/** In milliseconds: longer than the tests of any mutation take. A mutation can make them hang beyond the limits of Vitest. */
const timeout = 300_000

const verdicts = ["caught", "survived", "timed out", "fails without", "not applicable"] as const
type Verdict = (typeof verdicts)[number]

const failuresIn = Schema.decodeUnknownSync(
  Schema.fromJsonString(
    Schema.Array(
      Schema.Struct({
        file: Schema.String,
        title: Schema.String,
        message: Schema.String,
        isTimeout: Schema.Boolean
      })
    )
  )
)

/** Runs files of tests. Returns their failures, or `undefined` if the run was ended by `limit` (milliseconds). */
const failuresOf = async (
  files: ReadonlyArray<string>,
  args: ReadonlyArray<string>,
  env: Readonly<Record<string, string>>,
  limit?: number
): Promise<ReadonlyArray<Failure> | undefined> => {
  const child = spawn(
    process.execPath,
    [
      join(root, "node_modules/.bin/vitest"),
      "run",
      "--config=test/vitest.config.ts",
      "--reporter=./test/mutations/Failures.ts",
      ...args,
      ...files
    ],
    {
      cwd: root,
      // Random project files are the same in each run, so that a verdict does not depend on chance.
      env: { ...process.env, SEED: "1", ...env },
      stdio: ["ignore", "pipe", "pipe"],
      ...(limit === undefined ? {} : { timeout: limit })
    }
  )
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject)
    child.once("close", resolve)
  })
  const [code, output, errors] = await Promise.all([ended, text(child.stdout), text(child.stderr)])
  const report = output.split("\n").findLast((line) => line.startsWith("["))
  if (report !== undefined) {
    const failures = failuresIn(report)
    // An error outside of any test, such as a rejection that nothing handles.
    const other = { file: "", title: "", message: `Vitest ended with ${code}`, isTimeout: false }
    return failures.length === 0 && code !== 0 ? [other] : failures
  }
  if (child.killed) return undefined
  throw new Error(`Vitest ended with ${code} and reported nothing: ${errors}`)
}

interface Judged {
  readonly verdict: Verdict
  /** What failed, if a test did. */
  readonly failure?: Failure | undefined
}

const verdictOf = async (mutation: Mutation, failsWithout: ReadonlySet<string>): Promise<Judged> => {
  if (!applies(mutation)) return { verdict: "not applicable" }
  const files = mutation.tests.map(pathOf)
  if (files.some((file) => failsWithout.has(file))) return { verdict: "fails without" }
  const failures = await failuresOf(
    files,
    ["--bail=1"],
    {
      NODE_OPTIONS: `--import ${new URL("hooks.ts", import.meta.url).href}`,
      MUTATION_FILE: mutation.file,
      MUTATION_FROM: mutation.from,
      MUTATION_TO: mutation.to
    },
    timeout
  )
  const failure = failures?.find(({ isTimeout }) => !isTimeout)
  if (failure !== undefined) return { verdict: "caught", failure }
  if (failures?.length === 0) return { verdict: "survived" }
  return { verdict: mutation.hangs === true ? "caught" : "timed out", failure: failures?.[0] }
}

const judge = async (filter: string, jobs: number): Promise<boolean> => {
  // Without the judges, their tests would fail.
  if (!existsSync(judges))
    throw new Error("Some mutations need the judges; install them with: npm ci --prefix test/judges")
  const started = Date.now()
  const queue = mutations.filter(({ file }) => file.includes(filter))
  const total = queue.length
  const files = new Set(queue.filter(applies).flatMap(({ tests }) => tests.map(pathOf)))
  const failsWithout = new Set<string>()
  for (const { file, message, title } of (await failuresOf([...files], [], {})) ?? []) {
    failsWithout.add(file)
    console.log(`fails without a mutation: ${file}: ${title}: ${message}`)
  }
  const counts = Object.fromEntries(verdicts.map((verdict) => [verdict, 0]))
  const work = async () => {
    for (let mutation = queue.shift(); mutation !== undefined; mutation = queue.shift()) {
      const { failure, verdict } = await verdictOf(mutation, failsWithout)
      counts[verdict] = (counts[verdict] ?? 0) + 1
      const { file, from, to } = mutation
      const by = failure === undefined ? "" : `\n  ${failure.title}: ${failure.message.split("\n", 1)[0]}`
      console.log(`${verdict.padEnd(14)} ${file}: ${JSON.stringify(from)} -> ${JSON.stringify(to)}${by}`)
    }
  }
  await Promise.all(Array.from({ length: jobs }, work))
  const found = verdicts.map((verdict) => `${counts[verdict]} ${verdict}`).join(", ")
  console.log(`${found}, in ${Math.round((Date.now() - started) / 1000)} s`)
  return total > 0 && counts["caught"] === total
}

const flags = {
  filter: Argument.String("filter").pipe(
    Argument.withMetavar("TEXT"),
    Argument.withDefault(""),
    Argument.withDescription("Only mutations of source files whose path contains the text")
  ),
  jobs: count("jobs", 1, "Number of mutations at a time")
}

Command.make("mutations", flags, ({ filter, jobs }) =>
  Effect.gen(function* () {
    const isCaught = yield* Effect.promise(() => judge(filter, jobs))
    if (!isCaught)
      yield* Effect.andThen(
        Console.error("Not all mutations are caught"),
        Effect.sync(() => void (process.exitCode = 1))
      )
  })
).pipe(
  Command.withDescription("Make the source wrong in many places, one at a time; a test has to fail each time"),
  Command.run({ version: "1" }),
  Effect.provide(NodeServices.layer),
  NodeRuntime.runMain
)
