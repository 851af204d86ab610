/** Sends one HTTP/1.1 request, and receives the answer within limits. */
import { Data, type Duration, Effect, Option, Predicate, References, Result, type Tracer } from "effect"
import { Headers } from "effect/http"
import type { IncomingHttpHeaders } from "node:http"
import type { Dispatcher } from "undici"
import manifest from "../../package.json" with { type: "json" }
import { ConnectFailed, type Connection, type Connections, headerLimit, hostOf } from "./Connections.ts"
import { traceparentOf } from "../telemetry/Telemetry.ts"

/** Where a request goes. It is made once for many requests, because the getters of a URL make a new text at each access. */
export interface Destination {
  readonly url: URL
  readonly origin: string
  readonly path: string
}

export const destinationOf = (url: URL): Destination => ({
  url,
  origin: url.origin,
  path: `${url.pathname}${url.search}`
})

interface Post {
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
  readonly address: string
  readonly status: number
  readonly retryAfter: Option.Option<string>
  readonly body: Uint8Array
  readonly isWhole: boolean
}

/** The request got no answer, or an incomplete answer. */
export class ExchangeFailed extends Data.TaggedError("ExchangeFailed")<{
  readonly code: ConnectFailed["code"] | "connection_lost" | "invalid_response" | "timeout"
  /** Whether a reused connection ended before the answer began. The request may succeed on a new connection. */
  readonly stale: boolean
}> {}

/** Bytes that are read beyond headers and body: chunk sizes, trailers, interim answers and what precedes the answer. */
const framingLimit = 65_536

/** Maximum number of interim answers. */
const maxInterim = 3

/**
 * Sends the request on a connection of `connections`. An interruption ends the connection. `onReady` is called when the connection is
 * established, including TLS. Before that, no part of the request is written.
 */
export const exchange = (
  connections: Connections,
  post: Post,
  onReady: () => void = () => {}
): Effect.Effect<Answer, ExchangeFailed> =>
  Effect.callback((resume) => {
    const running = new Exchange(connections(post.to.origin), post, onReady, resume)
    running.start()
    return Effect.sync(() => running.abandon())
  })

const noBytes = Buffer.alloc(0)

/**
 * A request in flight. The object is also the handler that undici calls, because a closure for each event would cost more than
 * the work of the event. The caller is resumed once.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly connection: Connection
  readonly post: Post
  readonly onReady: () => void
  readonly resume: (result: Effect.Effect<Answer, ExchangeFailed>) => void
  /** Defined once the request is written. */
  controller: Dispatcher.DispatchController | undefined
  /** The number of answered requests and of received bytes of the connection, before the request. */
  served = 0
  bytesBefore = 0
  timer: NodeJS.Timeout | undefined
  over = false
  interim = 0
  status = 0
  retryAfter: Option.Option<string> = Option.none()
  body = noBytes
  read = 0

  constructor(
    connection: Connection,
    post: Post,
    onReady: () => void,
    resume: (result: Effect.Effect<Answer, ExchangeFailed>) => void
  ) {
    this.connection = connection
    this.post = post
    this.onReady = onReady
    this.resume = resume
  }

  start() {
    const {
      body,
      headers,
      to: { origin, path },
      until
    } = this.post
    if (until !== undefined) {
      this.timer = setTimeout(timeOut, Math.max(0, Math.ceil(until - performance.now())), this)
    }
    this.connection.dispatch(
      {
        origin,
        method: "POST",
        path,
        // The answer must not be compressed, because the limit counts received bytes.
        headers: { ...headers, "accept-encoding": "identity" },
        body,
        reset: this.connection.idle === undefined
      },
      this
    )
  }

  onRequestStart(controller: Dispatcher.DispatchController) {
    const { connection } = this
    // Abandoned while the connection was being established.
    if (this.over || connection.socket === undefined) return controller.abort(abandoned)
    this.controller = controller
    this.served = connection.served
    this.bytesBefore = connection.socket.bytesRead
    connection.readUpTo = this.bytesBefore + headerLimit + this.post.bodyLimit + framingLimit
    connection.handler = this
    this.onReady()
  }

  onRequestUpgrade(controller: Dispatcher.DispatchController) {
    // This client never sends an `Upgrade` header, so only a faulty server switches protocols.
    controller.abort(new Error("Unexpected upgrade"))
  }

  onResponseStart(_: Dispatcher.DispatchController, statusCode: number, headers: IncomingHttpHeaders) {
    // The final answer follows interim answers, which have a status below 200.
    if (statusCode < 200) {
      if (++this.interim > maxInterim) this.fail("invalid_response")
      return
    }
    this.status = statusCode
    const header = headers["retry-after"]
    if (header !== undefined) this.retryAfter = Option.fromUndefinedOr(Array.isArray(header) ? header[0] : header)
  }

  onResponseData(_: Dispatcher.DispatchController, chunk: Uint8Array) {
    this.keep(chunk.subarray(0, this.post.bodyLimit - this.read))
    if (this.read >= this.post.bodyLimit) this.answer(false)
  }

  /** Copies a chunk, because a view of it would hold all that was read from the socket with it. */
  keep(chunk: Uint8Array) {
    if (this.body.byteLength < this.read + chunk.byteLength) {
      const larger = Buffer.allocUnsafe(Math.max(2 * this.body.byteLength, this.read + chunk.byteLength))
      larger.set(this.body.subarray(0, this.read))
      this.body = larger
    }
    this.body.set(chunk, this.read)
    this.read += chunk.byteLength
  }

  onResponseEnd() {
    this.answer(true)
  }

  onResponseError(_: unknown, error: Error) {
    // A connection is stale if it broke before the request was written, or served earlier requests and has received nothing of the
    // answer.
    const stale =
      this.controller === undefined
        ? !(error instanceof ConnectFailed)
        : this.served > 0 && this.connection.socket?.bytesRead === this.bytesBefore
    this.fail(codeOf(error), stale)
  }

  overflow() {
    if (this.status > 0) this.answer(false)
    else this.fail("invalid_response")
  }

  answer(isWhole: boolean) {
    const { connection, read, retryAfter, status } = this
    const { address } = connection
    if (!this.ends()) return
    if (isWhole) {
      connection.served++
      connection.rest()
    } else this.cut()
    this.resume(Effect.succeed({ address, status, retryAfter, body: this.body.subarray(0, read), isWhole }))
  }

  fail(code: ExchangeFailed["code"], stale = false) {
    if (!this.ends()) return
    this.cut()
    this.resume(Effect.fail(new ExchangeFailed({ code, stale })))
  }

  /** Ends without a result, because the caller is interrupted. */
  abandon() {
    if (this.ends()) this.cut()
  }

  /** Ends the connection, also if it is not established yet. */
  cut() {
    if (this.controller === undefined) this.connection.giveUp()
    else this.controller.abort(abandoned)
  }

  ends() {
    if (this.over) return false
    this.over = true
    clearTimeout(this.timer)
    if (this.controller !== undefined) this.connection.handler = undefined
    return true
  }
}

const abandoned = new Error("The request has ended")

const timeOut = (exchange: Exchange) => exchange.fail("timeout")

/** undici's error codes for a malformed answer. */
const invalid = new Set(["UND_ERR_HEADERS_OVERFLOW", "UND_ERR_RES_CONTENT_LENGTH_MISMATCH"])

const codeOf = (error: Error): ExchangeFailed["code"] => {
  if (error instanceof ConnectFailed) return error.code
  const code = Predicate.hasProperty(error, "code") ? String(error.code) : ""
  if (error.name === "HTTPParserError" || invalid.has(code) || /^bad (?:response|upgrade)$/.test(error.message)) {
    return "invalid_response"
  }
  // TLS can still fail after the handshake. For example, a TLS 1.3 server may then reject the client by an alert.
  return code.startsWith("ERR_SSL_") ? "tls_failed" : "connection_lost"
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

/**
 * Returns the attributes of a POST (OpenTelemetry's semantic conventions for HTTP clients). The path and the query are left out,
 * because they often contain a secret.
 */
export const postAttributes = (url: URL) => ({
  "http.request.method": "POST",
  "url.full": `${url.origin}/REDACTED`,
  "server.address": hostOf(url),
  "server.port": Number(url.port === "" ? (url.protocol === "https:" ? 443 : 80) : url.port)
})

/**
 * Runs a request in a new span. If `errorOf` returns an error type for the outcome, the span ends with an error of this type.
 * The outcome is returned in any case.
 */
export const inClientSpan =
  <A>(errorOf: (outcome: A) => string | undefined, options: Tracer.SpanOptions) =>
  (request: Effect.Effect<A>): Effect.Effect<A> =>
    request.pipe(
      Effect.flatMap((outcome) => {
        const type = errorOf(outcome)
        return type === undefined ? Effect.succeed(outcome) : failing(outcome, type)
      }),
      Effect.tapDefect(() => Effect.annotateCurrentSpan("error.type", "internal")),
      Effect.withSpan("POST", { ...options, kind: "client" }),
      Effect.catch(({ outcome }) => Effect.succeed(outcome))
    )

const failing = <A>(outcome: A, type: string) =>
  Effect.andThen(Effect.annotateCurrentSpan("error.type", type), Effect.fail({ outcome, message: type }))

export const currentTraceparent: Effect.Effect<Option.Option<string>> = Effect.gen(function* () {
  const span = (yield* References.TracerEnabled) ? yield* Effect.option(Effect.currentParentSpan) : Option.none()
  return Option.map(span, traceparentOf)
})
