/** Sends one HTTP/1.1 request, and receives the answer within limits. */
import { Data, type Duration, Effect, Option, Predicate, Result } from "effect"
import { Headers } from "effect/http"
import type { IncomingHttpHeaders } from "node:http"
import type { Dispatcher } from "undici"
import manifest from "../../../package.json" with { type: "json" }
import { type Connection, type Connections, type Destination, destroy, type Phase } from "./Connections.ts"

export interface Post {
  readonly to: Destination
  readonly headers: Readonly<Record<string, string>>
  /** Text is sent as UTF-8, in one write with the headers. */
  readonly body: string | Uint8Array
  /** Maximum size in bytes of the answer's body. The rest is cut off. */
  readonly bodyLimit: number
  /** Deadline of the answer, in milliseconds of `performance.now()`. Undefined: the caller interrupts the request. */
  readonly until?: number
}

/** A complete answer, or an answer whose body was cut off at its limit. */
export interface Answer {
  readonly status: number
  readonly retryAfter: Option.Option<string>
  readonly body: Uint8Array
  readonly isWhole: boolean
}

/** The request got no answer, or an incomplete answer. */
export class ExchangeFailed extends Data.TaggedError("ExchangeFailed")<{
  readonly code: Phase | "invalid_response" | "timeout"
  /** Whether a reused connection ended before the answer began. The request may succeed on a new connection. */
  readonly stale: boolean
}> {}

/**
 * Sends the request on a connection of `connections`. An interruption destroys the connection. `onReady` is called when the
 * connection is established, including TLS. Before that, no part of the request is written.
 */
export const exchange = (
  connections: Connections,
  post: Post,
  onReady: () => void = () => {}
): Effect.Effect<Answer, ExchangeFailed> =>
  Effect.callback((resume) => {
    const running = new Exchange(connections, post, onReady, resume)
    running.start()
    return Effect.sync(() => running.abandon())
  })

const noBytes = Buffer.alloc(0)

/**
 * A request in flight. The object is also the handler that undici calls, because a closure for each event would cost more than
 * the work of the event. The caller is resumed once.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly connections: Connections
  readonly post: Post
  readonly connection: Connection
  readonly onRequestStart: () => void
  readonly resume: (result: Effect.Effect<Answer, ExchangeFailed>) => void
  /** The number of answered requests and of received bytes of the connection, before the request. */
  readonly served: number
  readonly bytesBefore: number
  timer: NodeJS.Timeout | undefined
  over = false
  status = 0
  retryAfter: Option.Option<string> = Option.none()
  chunks: Array<Uint8Array> = []
  read = 0

  constructor(
    connections: Connections,
    post: Post,
    onReady: () => void,
    resume: (result: Effect.Effect<Answer, ExchangeFailed>) => void
  ) {
    const connection = connections.take(post.to)
    this.connections = connections
    this.post = post
    this.connection = connection
    this.onRequestStart = onReady
    this.resume = resume
    this.served = connection.state.served
    this.bytesBefore = connection.state.socket?.bytesRead ?? 0
  }

  start() {
    const { client, isKept, state } = this.connection
    const { body, headers, to, until } = this.post
    if (until !== undefined) {
      this.timer = setTimeout(timeOut, Math.max(0, Math.ceil(until - performance.now())), this)
    }
    state.expectAnswer()
    client.dispatch(
      {
        origin: to.origin,
        method: "POST",
        path: to.path,
        // The answer must not be compressed, because the limit counts received bytes.
        headers: { ...headers, "accept-encoding": "identity" },
        body,
        reset: !isKept
      },
      this
    )
  }

  onRequestUpgrade(controller: Dispatcher.DispatchController) {
    // This client never sends an `Upgrade` header, so only a faulty server switches protocols.
    controller.abort(new Error("Unexpected upgrade"))
  }

  onResponseStart(_: Dispatcher.DispatchController, statusCode: number, headers: IncomingHttpHeaders) {
    // Interim answers have a status below 200. The final answer follows them.
    if (statusCode < 200) return
    this.status = statusCode
    const header = headers["retry-after"]
    if (header !== undefined) this.retryAfter = Option.fromUndefinedOr(Array.isArray(header) ? header[0] : header)
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Uint8Array) {
    this.chunks.push(chunk)
    this.read += chunk.byteLength
    if (this.read >= this.post.bodyLimit) this.answer(false)
  }

  onResponseEnd() {
    this.answer(true)
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error) {
    const { state } = this.connection
    // A connection is stale if it served earlier requests, was not opened anew for this one, and has received nothing of the
    // answer.
    const stale = this.served > 0 && state.served > 0 && (state.socket?.bytesRead ?? 0) === this.bytesBefore
    this.fail(codeOf(error, this.connection), stale)
  }

  answer(isWhole: boolean) {
    const { chunks, connection, connections, read, retryAfter, status } = this
    if (!this.ends()) return
    if (isWhole) connection.state.served++
    // If the answer came before the whole request was written, the rest of the request is still in the socket. Such a connection
    // is not kept.
    if (isWhole && connection.state.socket?.writableLength === 0) connections.keep(connection)
    else destroy(connection)
    this.resume(Effect.succeed({ status, retryAfter, body: read === 0 ? noBytes : Buffer.concat(chunks), isWhole }))
  }

  fail(code: ExchangeFailed["code"], stale: boolean) {
    if (!this.ends()) return
    destroy(this.connection)
    this.resume(Effect.fail(new ExchangeFailed({ code, stale })))
  }

  /** Ends without a result, because the caller is interrupted. */
  abandon() {
    if (this.ends()) destroy(this.connection)
  }

  ends() {
    if (this.over) return false
    this.over = true
    clearTimeout(this.timer)
    return true
  }
}

const timeOut = (exchange: Exchange) => exchange.fail("timeout", false)

/** undici's error codes for a malformed answer. */
const invalid = new Set(["UND_ERR_HEADERS_OVERFLOW", "UND_ERR_RES_CONTENT_LENGTH_MISMATCH"])

const codeOf = (error: Error, { state }: Connection): ExchangeFailed["code"] => {
  const code = Predicate.hasProperty(error, "code") ? String(error.code) : ""
  if (error.name === "HTTPParserError" || invalid.has(code) || /^bad (?:response|upgrade)$/.test(error.message)) {
    return "invalid_response"
  }
  // TLS can still fail after the handshake. For example, a TLS 1.3 server may then reject the client by an alert.
  return code.startsWith("ERR_SSL_") ? "tls_failed" : state.phase
}

export const userAgent = `developer-api/${manifest.version}`

/**
 * Returns the delay that a `Retry-After` header asks for, as seconds or as a date (RFC 9110, section 10.2.3). `now` is in
 * milliseconds since 1970. Returns none if the header can't be parsed.
 */
export const retryDelay = (header: Option.Option<string>, now: number): Option.Option<Duration.Duration> =>
  header.pipe(
    Option.flatMap((value) => Result.getSuccess(Headers.parseRetryAfter(value))),
    Option.map((value) => Headers.retryAfterDelay(value, now))
  )
