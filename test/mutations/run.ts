/**
 * Runs every mutation (or those whose file contains the first argument) against its tests, and lists the survivors.
 * `--jobs N` runs N at a time. The exit code is 1 when a mutation survives or no longer applies.
 */
import { spawn } from "node:child_process"
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { parseArgs } from "node:util"
import { api } from "./api.ts"
import { client } from "./client.ts"
import { domains } from "./domains.ts"
import { engine } from "./engine.ts"
import type { Mutation } from "./Mutation.ts"
import { platform } from "./platform.ts"
import { project } from "./project.ts"
import { server } from "./server.ts"
import { judges } from "../support/Judges.ts"

const root = join(import.meta.dirname, "../..")
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { jobs: { type: "string", default: "1" } }
})
const [filter = ""] = positionals

// Without the judges, their tests would fail and every mutation would seem to be caught.
if (!existsSync(judges))
  throw new Error("Some mutations need the judges; install them with: npm ci --prefix test/judges")

/** In milliseconds: longer than any of the tests takes. A mutation can also make them hang. */
const timeout = 180_000

type Verdict = "caught" | "survived" | "not applicable"

/** Returns whether the mutation still changes its source, and its tests exist. */
const applies = ({ file, from, tests }: Mutation) => {
  const path = join(root, "src", file)
  return (
    existsSync(path) &&
    readFileSync(path, "utf8").includes(from) &&
    tests.every((test) => existsSync(join(root, "test", `${test}.test.ts`)))
  )
}

const verdictOf = (mutation: Mutation): Promise<Verdict> => {
  if (!applies(mutation)) return Promise.resolve("not applicable")
  const child = spawn(
    process.execPath,
    [
      join(root, "node_modules/.bin/vitest"),
      "run",
      "--config=test/vitest.config.ts",
      "--bail=1",
      "--reporter=dot",
      ...mutation.tests.map((test) => `test/${test}.test.ts`)
    ],
    {
      cwd: root,
      env: {
        ...process.env,
        // Random project files are the same in each run, so that a verdict does not depend on chance.
        SEED: "1",
        NODE_OPTIONS: `--import ${new URL("hooks.ts", import.meta.url).href}`,
        MUTATION_FILE: mutation.file,
        MUTATION_FROM: mutation.from,
        MUTATION_TO: mutation.to
      },
      stdio: "ignore",
      timeout
    }
  )
  return new Promise((resolve, reject) => {
    child.once("error", reject)
    child.once("exit", (code) => resolve(code === 0 ? "survived" : "caught"))
  })
}

const started = Date.now()
const queue = [platform, client, project, api, domains, engine, server]
  .flat()
  .filter(({ file }) => file.includes(filter))
const counts: Record<Verdict, number> = { caught: 0, survived: 0, "not applicable": 0 }

const work = async () => {
  for (let mutation = queue.shift(); mutation !== undefined; mutation = queue.shift()) {
    const verdict = await verdictOf(mutation)
    counts[verdict]++
    const { file, from, to } = mutation
    console.log(`${verdict.padEnd(14)} ${file}: ${JSON.stringify(from)} -> ${JSON.stringify(to)}`)
  }
}
await Promise.all(Array.from({ length: Number(values.jobs) }, work))

const seconds = Math.round((Date.now() - started) / 1000)
console.log(
  `${counts.caught} caught, ${counts.survived} survived, ${counts["not applicable"]} not applicable, in ${seconds} s`
)
process.exitCode = counts.caught > 0 && counts.survived + counts["not applicable"] === 0 ? 0 : 1
