/** One request and its answer over HTTP/1.1, with limits on what the other side may do. */
import { Data, Effect, Option, Predicate } from "effect"
import type { Dispatcher } from "undici"
import { type Connection, type Connections, destroy, type Phase } from "./Connections.ts"

/** What goes to the other side, and where that is. */
export interface Post {
  readonly url: URL
  /**
   * Addresses of the host, at least one: a connection goes to one of these. Not used where the host is an address. Absent:
   * those that the system finds.
   */
  readonly addresses?: ReadonlyArray<string>
  readonly headers: Readonly<Record<string, string>>
  /** Text goes out as UTF-8, in one piece with the headers. */
  readonly body: string | Uint8Array
  /** An answer's body that is as long as this, in bytes, is cut off there. */
  readonly bodyLimit: number
  /** Deadline of the answer, by the clock of `performance.now()`. Absent: the caller interrupts. */
  readonly until?: number
}

/** An answer that came to its end, or to the limit of what is read of it. */
export interface Answer {
  readonly status: number
  /** The header as it came. */
  readonly retryAfter: Option.Option<string>
  /** None when it was cut off. */
  readonly body: Option.Option<Uint8Array>
}

/** No answer, or not a whole one. */
export class ExchangeFailed extends Data.TaggedError("ExchangeFailed")<{
  readonly code: Phase | "invalid_response" | "timeout"
  /** The connection had served before, and was gone before the answer began: a fresh one may do. */
  readonly stale: boolean
}> {}

/**
 * Makes the request on a connection that `connections` has for it. Interruption destroys the connection. `onReady` is
 * called when the connection stands, TLS included: before that nothing of the request is written.
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
      // An answer that did not wait for the whole request: nobody would read the rest.
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
        // An answer is short, and its limit is of what comes: it need not be packed.
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

/** Reads an answer up to a limit of its body. */
const reader = (bodyLimit: number, onReady: () => void, { answered, failed }: Outcome): Dispatcher.DispatchHandler => {
  const chunks: Array<Uint8Array> = []
  let read = 0
  let status = 0
  let retryAfter: Option.Option<string> = Option.none()
  return {
    onRequestStart: onReady,
    // Nobody asked for another protocol.
    onRequestUpgrade: (controller) => controller.abort(new Error("Unexpected upgrade")),
    onResponseStart: (_, statusCode, headers) => {
      // Interim answers come before the answer.
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

/** What undici and the parser of HTTP say of an answer that is none. */
const invalid = new Set(["UND_ERR_HEADERS_OVERFLOW", "UND_ERR_RES_CONTENT_LENGTH_MISMATCH"])

const codeOf = (error: Error, { state }: Connection): ExchangeFailed["code"] => {
  const code = Predicate.hasProperty(error, "code") ? String(error.code) : ""
  if (error.name === "HTTPParserError" || invalid.has(code) || /^bad (?:response|upgrade)$/.test(error.message)) {
    return "invalid_response"
  }
  // Such as the alert by which a server of TLS 1.3 refuses us, after the handshake.
  return code.startsWith("ERR_SSL_") ? "tls_failed" : state.phase
}
