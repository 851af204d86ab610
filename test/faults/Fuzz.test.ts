/**
 * Random requests (contract §1): each gets an answer that the OpenAPI document has, never 500, of bounded size and bounded
 * CPU time. `REQUESTS=100000` sends that many; `SEED` repeats a run.
 */
import { assert, layer } from "../support/Vitest.ts"
import { Cause, Effect, Schema } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { connect } from "node:net"
import { codeOf, problemOf } from "../support/ContractAnswers.ts"
import { type Answer, answersOf, type Request, send } from "../support/ContractHttp.ts"
import { assertDocumented } from "../support/Documented.ts"
import { cpuMillis } from "../bench/Cpu.ts"
import { type Service, startService } from "../support/Process.ts"
import { TestServer } from "../support/TestServer.ts"
import { samples, World } from "../contract/Samples.ts"
import { hostileBodies } from "../support/HostileBodies.ts"
import { mcpRequest } from "../support/Mcp.ts"
import { bytesOf, requestsOf } from "./Fuzz.support.ts"
import { serviceEnv } from "./Projects.support.ts"

const requests = Number(process.env["REQUESTS"] ?? 1_500)
const firstSeed = Number(process.env["SEED"] ?? 1)

/** Requests that are sent at once and whose CPU time is measured together. Random bytes cost less: most fail early. */
const [batch, batchOfBytes] = [20, 40]
const maxCpuMillis = 100
const maxProblem = 64 * 1024

/** Starts the service as a separate process on the database of `World`. */
const start = Effect.gen(function* () {
  const { databaseUrl } = yield* TestServer
  return yield* Effect.promise(() => startService({ env: serviceEnv(databaseUrl), args: ["--role", "api"] }))
})

/**
 * Sends what `make` generates for each seed, `batch` at once, and returns the faults of the answers. If a batch uses more
 * CPU time than one request may, each of its requests is sent again, alone.
 */
const sendAll = <A>(
  { pid }: Service,
  { batch, count }: { readonly batch: number; readonly count: number },
  make: (seed: number) => ReadonlyArray<A>,
  run: (item: A) => Effect.Effect<void>
) =>
  Effect.gen(function* () {
    const faults: Array<string> = []
    let most = 0
    const note = (item: A, what: unknown) =>
      faults.push(
        `${String(what).slice(0, 1_000)}\n${item instanceof Uint8Array ? Buffer.from(item).toString("latin1", 0, 1_000) : JSON.stringify(item).slice(0, 1_000)}`
      )
    for (let sent = 0; sent < count && faults.length < 10; sent += batch) {
      const seed = firstSeed + sent
      const items = make(seed)
      const before = cpuMillis(pid)
      const results = yield* Effect.forEach(items, (item) => Effect.exit(run(item)), { concurrency: "unbounded" })
      const used = cpuMillis(pid) - before
      for (const [index, result] of results.entries()) {
        if (result._tag === "Failure" && items[index] !== undefined)
          note(items[index], `seed ${seed}: ${Cause.pretty(result.cause)}`)
      }
      for (const item of used > maxCpuMillis ? items : []) {
        const alone = yield* cpuOf(pid, run(item))
        most = Math.max(most, alone)
        if (alone > maxCpuMillis) note(item, `seed ${seed}: ${alone} ms of the CPU`)
      }
    }
    return { faults, most }
  })

/** Returns the least CPU time of three runs, which excludes other work of the process. */
const cpuOf = Effect.fnUntraced(function* (pid: number, request: Effect.Effect<void>) {
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

/** Counts the answers of each status. */
const counting = () => {
  const counts = new Map<number, number>()
  return {
    add: (status: number) => counts.set(status, (counts.get(status) ?? 0) + 1),
    of: (status: number) => counts.get(status) ?? 0,
    text: () =>
      [...counts]
        .toSorted(([a], [b]) => a - b)
        .map(([status, count]) => `${status}: ${count}`)
        .join(", ")
  }
}
type Counts = ReturnType<typeof counting>

const judge = (counts: Counts, request: Request, answer: Answer) => {
  counts.add(answer.status)
  assert.isBelow(answer.status, 500, answer.text)
  if (request.method === "HEAD") return
  // The header section contains the path, so 431 belongs to no operation of the document.
  if (answer.status !== 431) assertDocumented(request, answer)
  if (answer.status < 400) return
  problemOf(answer, answer.status, String(codeOf(answer)))
  assert.isAtMost(Buffer.byteLength(answer.text), maxProblem)
}

/** Milliseconds without data, after which another request shows whether the server is only busy. */
const silence = 250

/** Writes bytes to a connection; returns what is received until the server closes it, or is silent but answers others. */
const exchange = (base: string, bytes: Uint8Array) =>
  Effect.callback<string>((resume) => {
    const { hostname, port } = new URL(base)
    const chunks: Array<Buffer> = []
    const finish = () => {
      socket.destroy()
      resume(Effect.succeed(Buffer.concat(chunks).toString("utf8")))
    }
    // A server on a busy machine is silent as well, but then it answers nobody.
    const watch = async () => {
      const received = chunks.length
      await fetch(`${base}/readyz`).then((answer) => answer.text())
      if (chunks.length === received) finish()
      else socket.setTimeout(silence)
    }
    const socket = connect({ host: hostname, port: Number(port) }, () => socket.write(bytes))
    socket.setTimeout(silence).on("data", (chunk: Buffer) => chunks.push(chunk))
    socket.on("timeout", () => watch().catch(finish))
    // A server that closes while bytes are in transit resets the connection.
    socket.on("error", finish).on("end", finish)
  })

const isProblem = Schema.is(Schema.Struct({ type: Schema.String, status: Schema.Int, code: Schema.String }))

/** Asserts the rules of the contract that hold for any answer, for each answer on a connection. */
const judgeAll = (counts: Counts, received: string) => {
  for (const { headers, json, status, text } of answersOf(received)) {
    counts.add(status)
    if (status === 100) continue
    assert.isBelow(status, 500, received)
    assert.match(String(headers["x-request-id"]), /^[\w.-]{1,128}$/)
    if (status < 400) continue
    assert.strictEqual(headers["content-type"], "application/problem+json")
    assert.isAtMost(Number(headers["content-length"]), maxProblem)
    // The answer to HEAD has a length and no body.
    if (text !== "") assert.isTrue(isProblem(json) && json.status === status, received)
  }
}

layer(World.layer, { excludeTestServices: true })("a service that gets random requests", (it) => {
  /** Sends `count` items to a new service; asserts that the answers are sound, and that each status in `reached` occurs. */
  const expectSound = <A>(
    size: { readonly batch: number; readonly count: number },
    make: (token: string, seed: number, count: number) => ReadonlyArray<A>,
    answered: (service: Service, item: A, counts: Counts) => Effect.Effect<void>,
    reached: ReadonlyArray<number>
  ) =>
    Effect.gen(function* () {
      const { own } = yield* World
      const service = yield* start
      const counts = counting()
      const { faults, most } = yield* sendAll(
        service,
        size,
        (seed) => make(own.token, seed, size.batch),
        (item) => answered(service, item, counts)
      )
      assert.deepStrictEqual(faults, [])
      console.log(`${size.count} sent, ${counts.text()}; most CPU of one alone: ${most} ms`)
      // Shows that the generator also reaches the code behind the checks.
      for (const status of reached) assert.isAbove(counts.of(status), size.count / 200, `${status}`)
      assert.isFalse(service.hasExited())
    })

  it.effect(
    "answers all of them as documented, never with 500, with problems of at most 64 KiB and 100 ms of CPU time",
    () =>
      expectSound(
        { batch, count: requests },
        requestsOf,
        ({ url }, request, counts) => Effect.map(send(url, request), (answer) => judge(counts, request, answer)),
        [200, 201, 400, 404, 409]
      ),
    1_800_000
  )

  it.effect(
    "answers bytes that are hardly HTTP with problems, never with 500",
    () =>
      expectSound(
        { batch: batchOfBytes, count: requests / 4 },
        bytesOf,
        ({ url }, bytes, counts) => Effect.map(exchange(url, bytes), (text) => judgeAll(counts, text)),
        [200, 400, 404]
      ),
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
      for (const { body, operation, shape } of hostileBodies) {
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
