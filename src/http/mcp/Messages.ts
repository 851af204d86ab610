/**
 * Messages of the Model Context Protocol as they arrive over streamable HTTP. A message is read by the rules of the revision
 * that it names. No state is kept between messages, so any process of the service can answer any message. The revisions with a
 * handshake permit a server without session ids, and the revision 2026-07-28 has no sessions.
 */
import { Predicate } from "effect"
import type { IncomingHttpHeaders } from "node:http"

/** The revision of the protocol without a handshake: each request names this revision and the capabilities of its client. */
const stateless = "2026-07-28"

/** The revisions in which a client begins with `initialize`, the newest first. */
const withHandshake = ["2025-11-25", "2025-06-18"]

export const revisions: ReadonlyArray<string> = [stateless, ...withHandshake]

/**
 * Returns the offered revision if the server supports it. Otherwise returns the newest revision that has a handshake, as the
 * protocol recommends.
 */
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
  const { id, method, params = {} } = value
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

/**
 * Returns the fault of a request to which the rules of the stateless revision apply: a missing header or member, or a header
 * that differs from the body.
 */
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
