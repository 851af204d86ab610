/** The tour of the README: the first start of a service, and a shell to paste the blocks into. */
import { assert } from "@effect/vitest"
import { spawn } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { defer } from "./Finalizers.ts"
import { checkout, kill, startService, temporaryDirectory } from "./Process.ts"
import { eventually } from "./Waiting.ts"

interface Block {
  readonly pasted: string
  /** The block after it, without a language. */
  readonly answer: string | undefined
}

export const readme = readFileSync(join(checkout, "README.md"), "utf8")
export const blocks: ReadonlyArray<Block> = readme
  .slice(0, readme.indexOf("## Where to read on"))
  .matchAll(/^```sh\n(.*?)^```$(?:\n\n^```\n(.*?)^```$)?/gms)
  .map(([, pasted = "", answer]) => ({ pasted, answer }))
  .toArray()
export const [start, ...tour] = blocks

/** Starts a shell that lives as long as the test, with the programs that it leaves in the background. */
export const openShell = (env: Readonly<Record<string, string>>) => {
  const child = spawn("bash", ["--noprofile", "--norc"], {
    cwd: checkout,
    detached: true,
    env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...env }
  })
  defer(() => kill(-(child.pid ?? 0), "SIGKILL"))
  let [stdout, stderr] = ["", ""]
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text))
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text))
  let pasted = 0
  /** Pastes a block, waits for its end, and returns a function that reads what was printed since. */
  const paste = async (block: string) => {
    const from = stdout.length
    const mark = `pasted ${++pasted}`
    child.stdin.write(`${block}\necho "${mark}: $?"\n`)
    await eventually(() => assert.include(stdout, mark, stderr))
    assert.include(stdout, `${mark}: 0`, stderr)
    return () => stdout.slice(from).replace(/^pasted \d+: \d+\n/m, "")
  }
  return paste
}

/** Starts the service for the first time; returns the line that it prints for the tour, and the settings of its commands. */
export const startFirst = async () => {
  const env = { DATA_DIR: join(await temporaryDirectory(), "data") }
  const started = (await startService({ env })).stdout()
  const [exported, url = "", token = ""] =
    /^export API=(.*)\/api\/v1\/developer TOKEN=(.*)$/m.exec(started) ?? assert.fail(started)
  return { env, exported, url, token }
}
