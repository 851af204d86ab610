/** Bodies that are as expensive as their limits allow (contract §1): each is refused within a bound of CPU time, by HTTP and MCP. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { samples, World } from "../contract/Samples.ts"
import { send } from "../support/ContractHttp.ts"
import { hostileBatches, hostileBodies } from "../support/HostileBodies.ts"
import { mcpRequest } from "../support/Mcp.ts"
import { startService } from "../support/Process.ts"
import { TestServer } from "../support/TestServer.ts"
import { serviceEnv } from "./Projects.support.ts"

/** Milliseconds of CPU time for a body, and the times that it is sent: the least counts, without what else the process does. */
const maxCpuMillis = 15
const rounds = 8

/** Returns the CPU time of all threads of a process in milliseconds. */
const cpuOf = (pid: number) =>
  readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => {
    const [nanos] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")
    return sum + Number(nanos) / 1e6
  }, 0)

layer(World.layer, { excludeTestServices: true })("a hostile body", (it) => {
  it.effect(
    "is refused within 15 ms of CPU time, whatever its shape",
    function* () {
      const { databaseUrl } = yield* TestServer
      const { own } = yield* World
      const { pid, url } = yield* Effect.promise(() =>
        startService({ env: serviceEnv(databaseUrl), args: ["--role", "api"] })
      )
      const tooMuch: Array<string> = []
      for (const { body, operation, shape } of [...hostileBodies, ...hostileBatches()]) {
        const sample = samples[operation] ?? assert.fail(operation)
        const path = `/api${sample.path.replace(/\{\w+\}/, "a")}`
        const headers = { "content-type": "application/json" }
        const { json: _, ...tool } = mcpRequest(own.token, "tools/call", {})
        const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${operation}","arguments":{"idempotencyKey":"hostile-1","campaignId":"a","body":`
        const requests = {
          http: { method: sample.method, path, token: own.token, key: "hostile-1", body, headers },
          mcp: { ...tool, body: `${call}${body}}}}`, headers: { ...tool.headers, ...headers } },
          "mcp as text": {
            ...tool,
            body: `${call}${JSON.stringify(body)}}}}`,
            headers: { ...tool.headers, ...headers }
          }
        }
        for (const [by, request] of Object.entries(requests)) {
          let least = Infinity
          for (let round = 0; round < rounds && least > maxCpuMillis; round++) {
            const before = cpuOf(pid)
            const { status, text } = yield* send(url, request)
            least = Math.min(least, cpuOf(pid) - before)
            assert.isTrue(status >= 400 || text.includes("isError"), `${shape}: ${text}`)
          }
          if (process.env["SHOW"]) console.log(least.toFixed(1), by, operation, shape)
          if (least > maxCpuMillis) tooMuch.push(`${least.toFixed(1)} ms of ${operation} by ${by}: ${shape}`)
        }
      }
      assert.deepStrictEqual(tooMuch, [])
    },
    600_000
  )
})
