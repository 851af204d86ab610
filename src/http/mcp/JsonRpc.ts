/**
 * The messages of JSON-RPC in which the Model Context Protocol is spoken over streamable HTTP. A message is read by the rules of the
 * revision of the protocol that it names. No state is kept between messages, so any process of the service can answer any message. The
 * revisions with a handshake permit a server without session ids, and the revision 2026-07-28 has no sessions.
 */
import { Context, Predicate } from "effect"
import type { IncomingHttpHeaders } from "node:http"
import { HttpServerResponse } from "effect/http"
import { OpenApi } from "effect/http-api"
import { Api } from "../../api/Api.ts"
import type { ToolAnswer } from "./ToolProtocol.ts"

/** The revision of the protocol without a handshake: each request names this revision and the capabilities of its client. */
const stateless = "2026-07-28"

/** The revisions in which a client begins with `initialize`, the newest first. */
const withHandshake = ["2025-11-25", "2025-06-18"]

export const revisions: ReadonlyArray<string> = [stateless, ...withHandshake]

/** Returns the offered revision if the server supports it, otherwise the newest that has a handshake, as the protocol recommends. */
export const negotiate = (offered: unknown): string =>
  withHandshake.find((revision) => revision === offered) ?? withHandshake[0] ?? stateless

/** Error codes of JSON-RPC 2.0, and of revision 2026-07-28 (section "Error Codes"). */
export const errorCodes = {
  parse: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  headerMismatch: -32020,
  unsupportedRevision: -32022
} as const

export interface ProtocolError {
  readonly code: (typeof errorCodes)[keyof typeof errorCodes]
  readonly message: string
  readonly data?: unknown
}

type Id = string | number

export interface McpRequest {
  readonly _tag: "Request"
  readonly id: Id
  readonly method: string
  readonly params: Readonly<Record<string, unknown>>
  readonly isStateless: boolean
}

type Message =
  | McpRequest
  /** A notification, or an answer: this server sends no requests, so it ignores answers. */
  | { readonly _tag: "Notification" }
  | { readonly _tag: "Refused"; readonly id: Id | null; readonly error: ProtocolError }

const refused = (id: Id | null, code: ProtocolError["code"], message: string, data?: unknown): Message => ({
  _tag: "Refused",
  id,
  error: { code, message, ...(data === undefined ? {} : { data }) }
})

const isId = (u: unknown): u is Id => typeof u === "string" || Number.isSafeInteger(u)

export const messageOf = (value: unknown, headers: IncomingHttpHeaders): Message => {
  if (!Predicate.isObject(value) || value["jsonrpc"] !== "2.0") {
    return refused(null, errorCodes.invalidRequest, 'A message is an object with "jsonrpc": "2.0".')
  }
  const { id, method } = value
  // Some clients send null instead of leaving it out.
  const params = value["params"] ?? {}
  if (!("method" in value) && isId(id) && ("result" in value || "error" in value)) return { _tag: "Notification" }
  if (typeof method !== "string") return refused(null, errorCodes.invalidRequest, "A message has a method.")
  if (!("id" in value)) return { _tag: "Notification" }
  if (!isId(id)) return refused(null, errorCodes.invalidRequest, "The id of a request is a string or an integer.")
  if (!Predicate.isObject(params)) return refused(id, errorCodes.invalidParams, "params is an object.")
  return requestOf(id, method, params, headers)
}

const requestOf = (id: Id, method: string, params: Record<string, unknown>, headers: IncomingHttpHeaders): Message => {
  const header = headers["mcp-protocol-version"]
  const meta = Predicate.isObject(params["_meta"]) ? params["_meta"] : {}
  const carries = revisionKey in meta
  if (!carries && (method === "initialize" || header !== stateless)) {
    // For `initialize`, the header is not checked, because it would name the revision of an earlier handshake.
    return method === "initialize" || header === undefined || revisions.includes(String(header))
      ? { _tag: "Request", id, method, params, isStateless: false }
      : unsupported(id, String(header))
  }
  const fault = mismatchOf(method, params, headers, meta)
  if (fault !== undefined) return refused(id, ...fault)
  return header === stateless
    ? { _tag: "Request", id, method, params, isStateless: true }
    : unsupported(id, String(header))
}

const unsupported = (id: Id, requested: string): Message =>
  refused(id, errorCodes.unsupportedRevision, "The protocol version is not supported.", {
    supported: revisions,
    requested
  })

const revisionKey = "io.modelcontextprotocol/protocolVersion"
const capabilitiesKey = "io.modelcontextprotocol/clientCapabilities"

/** Returns the fault of a request of the stateless revision: what is missing, or a header that differs from the body. */
const mismatchOf = (
  method: string,
  params: Record<string, unknown>,
  headers: IncomingHttpHeaders,
  meta: Record<string, unknown>
): readonly [ProtocolError["code"], string] | undefined => {
  const header = headers["mcp-protocol-version"]
  const revision = meta[revisionKey]
  if (header === undefined) return [errorCodes.headerMismatch, "The header MCP-Protocol-Version is required."]
  if (typeof revision !== "string") return [errorCodes.invalidParams, `_meta has "${revisionKey}".`]
  if (header !== revision) return [errorCodes.headerMismatch, "MCP-Protocol-Version differs from _meta."]
  if (!Predicate.isObject(meta[capabilitiesKey])) return [errorCodes.invalidParams, `_meta has "${capabilitiesKey}".`]
  if (header !== stateless) return undefined
  if (headers["mcp-method"] !== method) return [errorCodes.headerMismatch, "Mcp-Method differs from the method."]
  if (method === "tools/call" && plain(headers["mcp-name"]) !== params["name"]) {
    return [errorCodes.headerMismatch, "Mcp-Name differs from the name of the tool."]
  }
  return undefined
}

/** Decodes a header value that may be in Base64 (revision 2026-07-28, "Value Encoding"). */
const plain = (header: string | ReadonlyArray<string> | undefined) => {
  const text = typeof header === "string" ? header : ""
  const encoded = /^=\?base64\?(.*)\?=$/.exec(text)?.[1]
  return encoded === undefined ? text : Buffer.from(encoded, "base64").toString("utf8")
}

/** The `serverInfo` in the result of `initialize`, and in `_meta` of each result of the stateless revision 2026-07-28. */
export const server = {
  name: "developer-api",
  title: Context.getUnsafe(Api.annotations, OpenApi.Title),
  version: Context.getUnsafe(Api.annotations, OpenApi.Version)
}

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

/**
 * The body of an answer stands once, in `structuredContent`. The text in `content` says where, and names a problem. `_meta` has some of
 * the headers.
 */
export const toolResult = ({ body, headers, problem, status }: ToolAnswer): McpResult => {
  const { etag, ratelimit, "retry-after": wait } = headers
  const meta = membersOf({
    "idempotent-replayed": isReplay(headers) || undefined,
    etag,
    ratelimit,
    "retry-after": wait
  })
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

export const unknownMethod = (request: McpRequest) => {
  const error = { code: errorCodes.methodNotFound, message: "The method is not known here." }
  return refuse(request, error, request.isStateless ? 404 : 200)
}

export const accepted = HttpServerResponse.empty({ status: 202 })

const json = (body: string, status: number) =>
  HttpServerResponse.text(body, { status, contentType: "application/json" })
