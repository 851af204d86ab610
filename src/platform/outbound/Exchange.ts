/** One HTTP/1.1 request and its answer, with limits on the answer. */
import { Data, type Duration, Effect, Option, Predicate, Result } from "effect"
import { Headers } from "effect/http"
import type { Dispatcher } from "undici"
import manifest from "../../../package.json" with { type: "json" }
import { type Connection, type Connections, destroy, type Phase } from "./Connections.ts"

/** An outbound POST. */
interface Post {
  readonly url: URL
  /**
   * Addresses of the host, at least one, to connect to. Ignored when the host is an address. Absent: the system
   * resolves the host.
   */
  readonly addresses?: ReadonlyArray<string>
  readonly headers: Readonly<Record<string, string>>
  /** Text is sent as UTF-8, in one write with the headers. */
  readonly body: string | Uint8Array
  /** Maximum size of the answer's body in bytes; a longer body is cut off. */
  readonly bodyLimit: number
  /** Deadline of the answer, measured by `performance.now()`. Absent: the caller interrupts. */
  readonly until?: number
}

/** A complete answer, or one that reached the limit of its body. */
export interface Answer {
  readonly status: number
  /** The unparsed header. */
  readonly retryAfter: Option.Option<string>
  /** None when the body was cut off. */
  readonly body: Option.Option<Uint8Array>
}

/** The request got no answer, or an incomplete one. */
export class ExchangeFailed extends Data.TaggedError("ExchangeFailed")<{
  readonly code: Phase | "invalid_response" | "timeout"
  /** Whether a reused connection ended before the answer began; a fresh connection may succeed. */
  readonly stale: boolean
}> {}

/**
 * Makes the request on a connection of `connections`. Interruption destroys the connection. `onReady` is called when
 * the connection is established, TLS included: nothing of the request is written before.
 */
export const exchange = (
  connections: Connections,
  post: Post,
  onReady: () => void = () => {}
): Effect.Effect<Answer, ExchangeFailed> =>
  Effect.callback((resume) => {
    const connection = connections.take(post.url, post.addresses)
    const { client, state } = connection
    const isReused = state.served > 0
    const before = state.socket?.bytesRead ?? 0
    let over = false
    const end = (result: Effect.Effect<Answer, ExchangeFailed>, isClean = false) => {
      if (over) return
      over = true
      clearTimeout(timer)
      if (isClean) state.served++
      // An answer that came before the whole request was written: the rest of the request would stay in the socket.
      if (isClean && state.socket?.writableLength === 0) connections.keep(connection)
      else destroy(connection)
      resume(result)
    }
    const fail = (code: ExchangeFailed["code"], stale = false) => end(Effect.fail(new ExchangeFailed({ code, stale })))
    const timer =
      post.until === undefined
        ? undefined
        : setTimeout(() => fail("timeout"), Math.max(0, Math.ceil(post.until - performance.now())))

    state.expectAnswer()
    client.dispatch(
      {
        origin: post.url.origin,
        method: "POST",
        path: `${post.url.pathname}${post.url.search}`,
        // The limit counts received bytes, so the answer must not be compressed.
        headers: { ...post.headers, "accept-encoding": "identity" },
        body: post.body,
        reset: !connection.isKept
      },
      reader(post.bodyLimit, onReady, {
        answered: (answer, isWhole) => end(Effect.succeed(answer), isWhole),
        failed: (error) => {
          const isStale = isReused && state.served > 0 && (state.socket?.bytesRead ?? 0) === before
          fail(codeOf(error, connection), isStale)
        }
      })
    )
    return Effect.sync(() => {
      over = true
      clearTimeout(timer)
      destroy(connection)
    })
  })

interface Outcome {
  readonly answered: (answer: Answer, isWhole: boolean) => void
  readonly failed: (error: Error) => void
}

/** Reads an answer up to the limit of its body. */
const reader = (bodyLimit: number, onReady: () => void, { answered, failed }: Outcome): Dispatcher.DispatchHandler => {
  const chunks: Array<Uint8Array> = []
  let read = 0
  let status = 0
  let retryAfter: Option.Option<string> = Option.none()
  return {
    onRequestStart: onReady,
    // The request asked for no upgrade.
    onRequestUpgrade: (controller) => controller.abort(new Error("Unexpected upgrade")),
    onResponseStart: (_, statusCode, headers) => {
      // Interim answers precede the answer.
      if (statusCode < 200) return
      status = statusCode
      const header = headers["retry-after"]
      retryAfter = Option.fromUndefinedOr(Array.isArray(header) ? header[0] : header)
    },
    onResponseData: (_, chunk) => {
      chunks.push(chunk)
      read += chunk.byteLength
      if (read >= bodyLimit) answered({ status, retryAfter, body: Option.none() }, false)
    },
    onResponseEnd: () => answered({ status, retryAfter, body: Option.some(Buffer.concat(chunks)) }, true),
    onResponseError: (_, error) => failed(error)
  }
}

/** Error codes of undici and of the HTTP parser for a malformed answer. */
const invalid = new Set(["UND_ERR_HEADERS_OVERFLOW", "UND_ERR_RES_CONTENT_LENGTH_MISMATCH"])

const codeOf = (error: Error, { state }: Connection): ExchangeFailed["code"] => {
  const code = Predicate.hasProperty(error, "code") ? String(error.code) : ""
  if (error.name === "HTTPParserError" || invalid.has(code) || /^bad (?:response|upgrade)$/.test(error.message)) {
    return "invalid_response"
  }
  // For example the alert by which a TLS 1.3 server rejects the client after the handshake.
  return code.startsWith("ERR_SSL_") ? "tls_failed" : state.phase
}

/** The `user-agent` of outbound requests. */
export const userAgent = `developer-api/${manifest.version}`

/**
 * Returns the delay of a `Retry-After` header, in either form of RFC 9110 (section 10.2.3), from `now` in milliseconds. None
 * for a header that cannot be parsed.
 */
export const retryDelay = (header: Option.Option<string>, now: number): Option.Option<Duration.Duration> =>
  header.pipe(
    Option.flatMap((value) => Result.getSuccess(Headers.parseRetryAfter(value))),
    Option.map((value) => Headers.retryAfterDelay(value, now))
  )
