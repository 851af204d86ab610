/** Answers of the agents' endpoint: results and errors of JSON-RPC, as one JSON document each. */
import { Context } from "effect"
import { HttpServerResponse } from "effect/http"
import * as OpenApi from "effect/http-api/OpenApi"
import { Api } from "../../api/Api.ts"
import { errorCodes, type McpRequest, type ProtocolError } from "./Messages.ts"
import type { ToolAnswer } from "./ToolProtocol.ts"

const title = Context.getUnsafe(Api.annotations, OpenApi.Title)

/** The `serverInfo` in the result of `initialize`, and in `_meta` of each result of the stateless revision 2026-07-28. */
export const server = { name: "developer-api", title, version: Context.getUnsafe(Api.annotations, OpenApi.Version) }

/** The result of a request, as JSON without braces: its members, and the members of its `_meta`. */
export interface McpResult {
  readonly members: string
  readonly meta?: string
}

const membersOf = (object: object) => JSON.stringify(object).slice(1, -1)

export const resultOf = (object: object): McpResult => ({ members: membersOf(object) })

/** The result of `tools/list`; `tools` is JSON. */
export const resultWith = (tools: string, others: object): McpResult => ({
  members: joinMembers(membersOf(others), `"tools":${tools}`)
})

/** Headers of an operation's answer that are also members of the `_meta` of a tool's result. */
const repeatedHeaders = ["etag", "ratelimit", "retry-after"] as const

/** The body of an answer stands once, in `structuredContent`. The text in `content` says where, and names a problem. */
export const toolResult = ({ body, headers, problem, status }: ToolAnswer): McpResult => {
  let meta = isReplay(headers) ? '"idempotent-replayed":true' : ""
  for (const name of repeatedHeaders) {
    const value = headers[name]
    if (value !== undefined) meta = joinMembers(meta, `"${name}":${JSON.stringify(value)}`)
  }
  const text = problem === undefined ? "See structuredContent." : `Problem ${problem}: see structuredContent.`
  const content = `"content":[{"type":"text","text":${JSON.stringify(text)}}],"structuredContent":${body}`
  return { members: `${content},"isError":${status >= 400}`, meta }
}

export const isReplay = (headers: Readonly<Record<string, string>>): boolean =>
  headers["idempotent-replayed"] !== undefined

const serverInfo = membersOf({ "io.modelcontextprotocol/serverInfo": server })

/** In the stateless revision 2026-07-28, each result names its type and the server. */
export const succeed = (
  { id, isStateless }: McpRequest,
  { members, meta }: McpResult,
  headers: Readonly<Record<string, string>>
) => {
  const result = isStateless ? joinMembers(members, '"resultType":"complete"') : members
  const all = isStateless ? joinMembers(meta ?? "", serverInfo) : meta
  const whole = all === undefined ? result : joinMembers(result, `"_meta":{${all}}`)
  const response = json(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{${whole}}}`, 200)
  // `response.headers` belongs to this response alone, so it can be changed. Passing the headers as an option would copy them
  // three times.
  Object.assign(response.headers, headers)
  return response
}

const joinMembers = (members: string, others: string) =>
  members === "" || others === "" ? members + others : `${members},${others}`

/** The id is null if the message has no readable id. */
export const refuse = ({ id }: { readonly id: string | number | null }, error: ProtocolError, status = 200) =>
  json(JSON.stringify({ jsonrpc: "2.0", id, error }), status)

export const unknownMethod = (request: McpRequest) =>
  refuse(
    request,
    { code: errorCodes.methodNotFound, message: "The method is not known here." },
    request.isStateless ? 404 : 200
  )

export const accepted = HttpServerResponse.empty({ status: 202 })

const json = (body: string, status: number) =>
  HttpServerResponse.text(body, { status, contentType: "application/json" })
