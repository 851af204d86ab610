/** Messages of the Model Context Protocol, sent as they are written here. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { type Answer, type Request, send } from "./ContractHttp.ts"

/** The revisions that a message can be written in: with a handshake, and without. */
export const revisions = ["2025-11-25", "2026-07-28"] as const
type Revision = (typeof revisions)[number]

const stateless = "2026-07-28"

/** The parts of a tool's result. */
export interface ToolResult {
  readonly content: ReadonlyArray<{ readonly type: string; readonly text: string }>
  readonly structuredContent: Readonly<Record<string, unknown>>
  readonly isError: boolean
  readonly _meta: Readonly<Record<string, unknown>>
}

/** An answer of JSON-RPC. */
interface RpcAnswer {
  readonly id?: unknown
  readonly result?: Readonly<Record<string, unknown>>
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown }
}

/** Returns the request that carries a method of the protocol. */
export const mcpRequest = (
  token: string | undefined,
  method: string,
  params: Readonly<Record<string, unknown>>,
  revision: Revision = "2025-11-25"
): Request => {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": revision,
    "io.modelcontextprotocol/clientCapabilities": {}
  }
  const isStateless = revision === stateless
  return {
    method: "POST",
    path: "/mcp",
    token,
    json: { jsonrpc: "2.0", id: 1, method, params: isStateless ? { ...params, _meta } : params },
    headers: {
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": revision,
      ...(isStateless ? { "mcp-method": method } : {}),
      ...(isStateless && typeof params["name"] === "string" ? { "mcp-name": params["name"] } : {})
    }
  }
}

/** Returns the body of an answer of JSON-RPC. */
export const rpcOf = (answer: Answer): RpcAnswer => {
  assert.strictEqual(answer.headers["content-type"], "application/json", answer.text)
  const body: RpcAnswer & { readonly jsonrpc?: string } = JSON.parse(answer.text)
  assert.strictEqual(body.jsonrpc, "2.0")
  assert.isString(answer.headers["x-request-id"])
  return body
}

/** Returns the result of a tool; asserts that its text is short, as the answer's body stands in it once. */
export const resultOf = (answer: Answer): ToolResult => {
  assert.strictEqual(answer.status, 200, answer.text)
  const { result } = rpcOf(answer)
  assert.isDefined(result, answer.text)
  const tool: ToolResult = JSON.parse(JSON.stringify(result))
  const code = tool.structuredContent["code"]
  const text = tool.isError ? `Problem ${String(code)}: see structuredContent.` : "See structuredContent."
  assert.deepStrictEqual(tool.content, [{ type: "text", text }])
  return tool
}

/** Calls a tool and returns its result. */
export const callTool = (
  base: string,
  token: string,
  name: string,
  args: Readonly<Record<string, unknown>>,
  revision?: Revision
): Effect.Effect<ToolResult> =>
  Effect.map(send(base, mcpRequest(token, "tools/call", { name, arguments: args }, revision)), resultOf)
