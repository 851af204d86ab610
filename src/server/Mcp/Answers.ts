/** Answers of the agents' endpoint: results and errors of JSON-RPC, as one JSON document each. */
import { Context } from "effect"
import { HttpServerResponse } from "effect/http"
import * as OpenApi from "effect/http-api/OpenApi"
import { Api } from "../../api/Api.ts"
import { errorCodes, type McpRequest, type ProtocolError } from "./Messages.ts"
import type { ToolAnswer } from "./ToolProtocol.ts"

const title = Context.getUnsafe(Api.annotations, OpenApi.Title)

/** The name and version of this server. */
export const server = { name: "developer-api", title, version: Context.getUnsafe(Api.annotations, OpenApi.Version) }

/** The result of a request: its members and those of its `_meta`, as JSON. */
export interface McpResult {
  readonly members: string
  readonly meta?: string
}

const membersOf = (object: object) => JSON.stringify(object).slice(1, -1)

/** Makes a result of the members of an object. */
export const resultOf = (object: object): McpResult => ({ members: membersOf(object) })

/** Headers of the answer of an operation that the metadata of a tool's result repeats. */
const repeatedHeaders = ["etag", "ratelimit", "retry-after"] as const

/** Makes the result of a tool. The text is for clients that do not read `structuredContent`. */
export const toolResult = ({ body, headers, status }: ToolAnswer): McpResult => {
  let meta = isReplay(headers) ? '"idempotent-replayed":true' : ""
  for (const name of repeatedHeaders) {
    const value = headers[name]
    if (value !== undefined) meta = joinMembers(meta, `"${name}":${JSON.stringify(value)}`)
  }
  const content = `"content":[{"type":"text","text":${JSON.stringify(body)}}],"structuredContent":${body}`
  return { members: `${content},"isError":${status >= 400}`, meta }
}

export const isReplay = (headers: Readonly<Record<string, string>>): boolean =>
  headers["idempotent-replayed"] !== undefined

const serverInfo = membersOf({ "io.modelcontextprotocol/serverInfo": server })

/** Answers a request with its result, and with headers. The stateless revision names its type and the server in each of them. */
export const succeed = (
  { id, isStateless }: McpRequest,
  { members, meta }: McpResult,
  headers: Readonly<Record<string, string>>
) => {
  const result = isStateless ? joinMembers(members, '"resultType":"complete"') : members
  const all = isStateless ? joinMembers(meta ?? "", serverInfo) : meta
  const whole = all === undefined ? result : joinMembers(result, `"_meta":{${all}}`)
  const response = json(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{${whole}}}`, 200)
  // The map was made for this response. To pass the headers as an option would copy them three times.
  Object.assign(response.headers, headers)
  return response
}

/** Joins members of a JSON object. */
const joinMembers = (members: string, others: string) => (members === "" ? others : `${members},${others}`)

/** Answers with an error of the protocol; without an id if the message has none that can be read. */
export const refuse = ({ id }: { readonly id: string | number | null }, error: ProtocolError, status = 200) =>
  json(JSON.stringify({ jsonrpc: "2.0", id, error }), status)

/** Answers a request for a method that the server does not have. */
export const unknownMethod = (request: McpRequest) =>
  refuse(
    request,
    { code: errorCodes.methodNotFound, message: "The method is not known here." },
    request.isStateless ? 404 : 200
  )

export const accepted = HttpServerResponse.empty({ status: 202 })

const json = (body: string, status: number) =>
  HttpServerResponse.text(body, { status, contentType: "application/json" })
