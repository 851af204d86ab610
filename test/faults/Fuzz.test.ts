/**
 * Random requests (contract §1): each gets an answer that the OpenAPI document has, never 500, of bounded size and bounded
 * CPU time. `REQUESTS=100000` sends that many; `SEED` repeats a run.
 */
import { assert, layer } from "../support/Vitest.ts"
import { Cause, Effect } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { codeOf, problemOf } from "../support/ContractAnswers.ts"
import { type Answer, type Request, send } from "../support/ContractHttp.ts"
import { assertDocumented } from "../support/Documented.ts"
import { cpuMillis } from "../bench/Cpu.ts"
import { startService } from "../support/Process.ts"
import { TestServer } from "../support/TestServer.ts"
import { samples, World } from "../contract/Samples.ts"
import { hostileBatches, hostileBodies } from "../support/HostileBodies.ts"
import { mcpRequest } from "../support/Mcp.ts"
import { requestsOf } from "./Fuzz.support.ts"
import { serviceEnv } from "./Projects.support.ts"

const requests = Number(process.env["REQUESTS"] ?? 1_500)
const firstSeed = Number(process.env["SEED"] ?? 1)

/** Requests that are sent at once and whose CPU time is measured together. */
const batch = 20
const maxCpuMillis = 100
const maxProblem = 64 * 1024

/** Returns the least CPU time of three runs, which excludes other work of the process. */
const cpuOf = Effect.fnUntraced(function* (pid: number, request: Effect.Effect<unknown>) {
  let least = Number.POSITIVE_INFINITY
  for (let round = 0; round < 3 && least > maxCpuMillis / 2; round++) {
    const before = cpuMillis(pid)
    yield* Effect.exit(request)
    least = Math.min(least, cpuMillis(pid) - before)
  }
  return least
})

/** Returns the CPU time of all threads of a process in milliseconds, finer than by ticks. */
const cpuOfThreads = (pid: number) =>
  readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => {
    const [nanos] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")
    return sum + Number(nanos) / 1e6
  }, 0)

const judge = (request: Request, answer: Answer) => {
  assert.isBelow(answer.status, 500, answer.text)
  if (request.method === "HEAD") return
  // The header section contains the path, so 431 belongs to no operation of the document.
  if (answer.status !== 431) assertDocumented(request, answer)
  if (answer.status < 400) return
  problemOf(answer, answer.status, String(codeOf(answer)))
  assert.isAtMost(Buffer.byteLength(answer.text), maxProblem)
}

const start = Effect.flatMap(TestServer, ({ databaseUrl }) =>
  Effect.promise(() => startService({ env: serviceEnv(databaseUrl), args: ["--role", "api"] }))
)

layer(World.layer, { excludeTestServices: true })("a service that gets random requests", (it) => {
  it.effect(
    "answers all of them as documented, never with 500, with problems of at most 64 KiB and 100 ms of CPU time",
    function* () {
      const { own } = yield* World
      const { hasExited, pid, url } = yield* start
      const counts = new Map<number, number>()
      const faults: Array<string> = []
      let most = 0
      const run = (request: Request) =>
        Effect.map(send(url, request), (answer) => {
          counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1)
          judge(request, answer)
        })
      for (let sent = 0; sent < requests && faults.length < 10; sent += batch) {
        const seed = firstSeed + sent
        const items = requestsOf(own.token, seed, batch)
        const note = (item: Request, what: unknown) =>
          faults.push(`seed ${seed}: ${String(what).slice(0, 1_000)}\n${JSON.stringify(item).slice(0, 1_000)}`)
        const before = cpuMillis(pid)
        yield* Effect.forEach(
          items,
          (item) => Effect.catchCause(run(item), (cause) => Effect.sync(() => note(item, Cause.pretty(cause)))),
          { concurrency: "unbounded" }
        )
        // If together they use more CPU time than one may, each is sent again, alone.
        for (const item of cpuMillis(pid) - before > maxCpuMillis ? items : []) {
          const alone = yield* cpuOf(pid, run(item))
          most = Math.max(most, alone)
          if (alone > maxCpuMillis) note(item, `${alone} ms of the CPU`)
        }
      }
      assert.deepStrictEqual(faults, [])
      console.log(`${requests} sent, ${JSON.stringify([...counts])}; most CPU of one alone: ${most} ms`)
      // Shows that the generator also reaches the code behind the checks.
      for (const status of [200, 201, 400, 404, 409]) {
        assert.isAbove(counts.get(status) ?? 0, requests / 200, String(status))
      }
      assert.isFalse(hasExited())
    },
    1_800_000
  )

  it.effect(
    "refuses any body within 15 ms of CPU time, whatever its shape, by HTTP and as the body of a tool",
    function* () {
      const { own } = yield* World
      const { pid, url } = yield* start
      const { json: _, ...tool } = mcpRequest(own.token, "tools/call", {})
      const headers = { "content-type": "application/json" }
      const tooMuch: Array<string> = []
      for (const { body, operation, shape } of [...hostileBodies, ...hostileBatches()]) {
        const sample = samples[operation] ?? assert.fail(operation)
        const path = `/api${sample.path.replace(/\{\w+\}/, "a")}`
        const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${operation}","arguments":{"idempotencyKey":"hostile-1","campaignId":"a","body":`
        const requests = {
          http: { method: sample.method, path, token: own.token, key: "hostile-1", body, headers },
          mcp: { ...tool, body: `${call}${body}}}}`, headers: { ...tool.headers, ...headers } }
        }
        for (const [by, request] of Object.entries(requests)) {
          let least = Number.POSITIVE_INFINITY
          for (let round = 0; round < 8 && least > 15; round++) {
            const before = cpuOfThreads(pid)
            const { status, text } = yield* send(url, request)
            least = Math.min(least, cpuOfThreads(pid) - before)
            assert.isTrue(status >= 400 || text.includes('"isError":true'), `${shape}: ${text}`)
          }
          if (least > 15) tooMuch.push(`${least.toFixed(1)} ms of ${operation} by ${by}: ${shape}`)
        }
      }
      assert.deepStrictEqual(tooMuch, [])
    },
    600_000
  )
})
