/** Tools of agents, each compared with the same operation by HTTP. */
import { Schema } from "effect"
import type { Answer, Case, Request, Traffic } from "../Case.ts"
import { create, get } from "./Clients.ts"

/** Returns the call of a tool, in the revision that clients of agents use by default. */
const toolRequest = (name: string, args: object): Request => ({
  method: "POST",
  path: "/mcp",
  headers: {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2025-11-25"
  },
  body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args } })
})

const decodeResult = Schema.decodeUnknownSync(
  Schema.Struct({
    result: Schema.Struct({
      structuredContent: Schema.Unknown,
      isError: Schema.Literal(false),
      _meta: Schema.Struct({
        etag: Schema.String,
        ratelimit: Schema.String,
        "idempotent-replayed": Schema.optionalKey(Schema.Literal(true))
      })
    })
  })
)

/** Returns the answer of the operation that a tool's result contains. */
const answerOf = (status: number, { body, headers }: Answer): Answer => {
  const { _meta, structuredContent } = decodeResult(body).result
  const { "idempotent-replayed": replayed, ...own } = _meta
  return {
    status,
    headers: { ...headers, ...own, ...(replayed === undefined ? {} : { "idempotent-replayed": "true" }) },
    body: structuredContent
  }
}

/** Makes a case of the tool of an operation from the case of its requests. */
const byTool = ({ traffic, ...of }: Case, byHttp: "get" | "create", toolOf: (request: Request) => Request): Case => ({
  ...of,
  byHttp,
  answerOf: (answer) => answerOf(of.status, answer),
  refusals: [],
  traffic: (stock, connection): Traffic => {
    const requests = traffic(stock, connection)
    return typeof requests === "function" ? () => toolOf(requests()) : requests.map(toolOf)
  }
})

export const getByTool = byTool(get, "get", ({ path }) =>
  toolRequest("getClient", { clientId: path.slice(path.lastIndexOf("/") + 1) })
)

const decodeBody = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Unknown))

export const createByTool = byTool(create, "create", ({ body, headers }) =>
  toolRequest("createClient", { idempotencyKey: headers["idempotency-key"], body: decodeBody(body) })
)
