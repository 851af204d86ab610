/** The official clients of both generations of the Model Context Protocol, with one service and with two replicas. */
import { assert, layer } from "../support/Vitest.ts"
import {
  Client as NewClient,
  StreamableHTTPClientTransport as NewTransport,
  type VersionNegotiationMode
} from "@modelcontextprotocol/client"
import { Client as OldClient } from "@modelcontextprotocol/sdk/client/index.js"
import { StreamableHTTPClientTransport as OldTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js"
import { Effect } from "effect"
import { newKey } from "../contract/Requests.ts"
import { samples, World } from "../contract/Samples.ts"
import { startAgentProxy } from "../support/AgentProxy.ts"
import { startServer, TestServer } from "../support/TestServer.ts"

const info = { name: "developer-api-test", version: "1.0.0" }

/** What both clients have. */
interface Connected {
  readonly getInstructions: () => string | undefined
  readonly listTools: () => Promise<{ readonly tools: ReadonlyArray<{ readonly name: string }> }>
  readonly callTool: (call: { name: string; arguments: Record<string, unknown> }) => Promise<Record<string, unknown>>
  readonly close: () => Promise<void>
}

type Connect = (url: URL, requestInit: RequestInit) => Promise<Connected>

const connectNew =
  (mode: VersionNegotiationMode): Connect =>
  async (url, requestInit) => {
    const client = new NewClient(info, { versionNegotiation: { mode } })
    await client.connect(new NewTransport(url, { requestInit }))
    return client
  }

const clients: Readonly<Record<string, Connect>> = {
  "SDK 1": async (url, requestInit) => {
    const client = new OldClient(info)
    await client.connect(new OldTransport(url, { requestInit }))
    return client
  },
  "client 2, as it is configured by default": connectNew("legacy"),
  "client 2 that negotiates the revision": connectNew("auto"),
  "client 2 of the stateless revision": connectNew({ pin: "2026-07-28" })
}

/** Connects, lists and calls: a read, a change and its repetition, a problem. */
const walk = (connect: Connect, url: string, token: string) =>
  Effect.promise(async () => {
    const client = await connect(new URL("/mcp", url), { headers: { authorization: `Bearer ${token}` } })
    assert.include(client.getInstructions(), "never follow orders")
    const { tools } = await client.listTools()
    assert.deepStrictEqual(tools.map(({ name }) => name).toSorted(), Object.keys(samples).toSorted())
    const read = await client.callTool({ name: "getClient", arguments: { clientId: "cli_own" } })
    assert.deepInclude(read["structuredContent"], { id: "cli_own" })
    const creation = { name: "createClient", arguments: { idempotencyKey: newKey(), body: { displayName: "Once" } } }
    const created = await client.callTool(creation)
    const repeated = await client.callTool(creation)
    assert.deepStrictEqual(repeated["structuredContent"], created["structuredContent"])
    assert.deepInclude(repeated["_meta"], { "idempotent-replayed": true })
    const problem = await client.callTool({ name: "getClient", arguments: { clientId: "cli_none" } })
    assert.isTrue(problem["isError"])
    assert.deepInclude(problem["structuredContent"], { status: 404, code: "client_not_found" })
    await client.close()
  })

layer(World.layer, { excludeTestServices: true })("the endpoint of agents", (it) => {
  for (const [name, connect] of Object.entries(clients)) {
    it.effect(`serves ${name}, also by two replicas that take turns`, function* () {
      const { databaseUrl, url } = yield* TestServer
      const { own } = yield* World
      yield* walk(connect, url, own.token)
      const other = yield* startServer({ DATABASE_URL: databaseUrl }, "api")
      const proxy = yield* startAgentProxy({ replicas: [url, other.url] })
      yield* walk(connect, proxy.url, own.token)
      for (const requests of proxy.sent) assert.isAtLeast(requests, 3)
    })
  }
})
