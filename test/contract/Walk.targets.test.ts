/** Every route of both ports: targets that are made to cost much are refused for what a harmless one costs (contract §1). */
import { assert, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { Agent } from "node:http"
import { paths as consolePaths } from "../../src/console/Console.ts"
import { codeOf, problemOf } from "../support/ContractAnswers.ts"
import { type Request, send } from "../support/ContractHttp.ts"
import { hostileParts, plainPart } from "../support/HostileTargets.ts"
import { mcpRequest } from "../support/Mcp.ts"
import { freePort } from "../support/Process.ts"
import { startServer } from "../support/TestServer.ts"
import { requestOf } from "./Requests.ts"
import { samples } from "./Samples.ts"

/** Requests to a path with a part in each place: as an id, below the path, as a query, as a value. */
const placed = (request: Request, part: string): ReadonlyArray<Request> =>
  [`${request.path}/${part}`, `${request.path}?${part}`, `${request.path}?limit=${part}`].map((path) => ({
    ...request,
    path
  }))

/** Requests to every operation, with and without a token. */
const ofOperations = (token: string, part: string): ReadonlyArray<Request> =>
  Object.values(samples).flatMap((sample) =>
    [undefined, token].flatMap((token) => [
      ...Object.keys(sample.params ?? {}).map((name) => requestOf(sample, token, { params: { [name]: part } })),
      ...placed(requestOf(sample, token, { query: "" }), part)
    ])
  )

/** Calls of tools that have a part in place of the path: as an id, as a value, as the name of an argument and of a tool. */
const ofTools = (token: string, part: string): ReadonlyArray<Request> => [
  ...placed(mcpRequest(token, "ping", {}), part),
  ...[{ clientId: part }, { limit: part }, { [part]: part }].map((args) =>
    mcpRequest(token, "tools/call", { name: "getClient", arguments: args })
  ),
  mcpRequest(token, "tools/call", { name: part })
]

/** Requests to routes that need no token. An answer of megabytes would hide what the target costs. */
const ofRoutes = (routes: ReadonlyArray<readonly [method: string, path: string]>, part: string) =>
  routes.flatMap(([method, path]) => placed({ method: method === "GET" ? "HEAD" : method, path }, part))

const open = ["/x", "/healthz", "/readyz", "/openapi.json", "/docs"].map((path) => ["GET", path] as const)
const admin = [["GET", "/x"], ["GET", "/metrics"], ...consolePaths] as const

it.live("refuses each at every route", function* () {
  const port = yield* Effect.promise(freePort)
  const server = yield* startServer({ ADMIN_PORT: String(port) }, "api")
  const { token } = yield* server.seed()
  const agent = yield* Effect.acquireRelease(
    Effect.sync(() => new Agent({ keepAlive: true })),
    (agent) => Effect.sync(() => agent.destroy())
  )
  /** Sends a part to every route; returns the CPU time of this process in milliseconds, which both sides need. */
  const walk = Effect.fnUntraced(function* (part: string) {
    const before = process.cpuUsage()
    for (const [base, requests] of [
      [server.url, [...ofOperations(token, part), ...ofTools(token, part), ...ofRoutes(open, part)]],
      [`http://127.0.0.1:${port}`, ofRoutes(admin, part)]
    ] as const) {
      for (const request of requests) {
        const answer = yield* send(base, { ...request, agent })
        const what = `${request.method} ${request.path.slice(0, 100)} ${answer.text}`
        assert.isBelow(answer.status, 500, what)
        if (answer.text.startsWith('{"type"')) problemOf(answer, answer.status, codeOf(answer) ?? what)
      }
    }
    const { system, user } = process.cpuUsage(before)
    return (system + user) / 1_000
  })
  yield* walk(plainPart)
  const usual = yield* walk(plainPart)
  for (const [name, part] of Object.entries(hostileParts)) {
    let least = Number.POSITIVE_INFINITY
    // The least of some measurements contains the least of other work in this process.
    for (let round = 0; round < 5 && least > 3 * usual; round++) least = Math.min(least, yield* walk(part))
    assert.isAtMost(least, 3 * usual, `${name}: ${least} ms for all routes, ${usual} ms for a harmless part`)
  }
})
