/** One request and its answer over HTTP/1.1, with limits on what the other side may do. */
import { Data, Effect, Option } from "effect"
import { type ClientRequest, type IncomingMessage, request as overTcp, type RequestOptions } from "node:http"
import { request as overTls } from "node:https"
import { isIP, isIPv6, type LookupFunction, type Socket, type TcpSocketConnectOpts } from "node:net"
import type { Agents } from "./Agents.ts"
import { hostOf } from "./Host.ts"

/** What goes to the other side, and where that is. */
export interface Post {
  readonly url: URL
  /**
   * Where the host is, one at least: a connection goes to one of these. Not asked where the host is an address. Absent:
   * wherever the system says.
   */
  readonly addresses?: ReadonlyArray<string>
  readonly headers: Readonly<Record<string, string>>
  /** Text goes out as UTF-8, in one piece with the headers. */
  readonly body: string | Uint8Array
  /** An answer's body that is as long as this, in bytes, is cut off there. */
  readonly bodyLimit: number
  /** Until when there has to be an answer, by the clock of `performance.now()`; absent: the caller minds. */
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
  readonly code: "dns_failed" | "connect_failed" | "tls_failed" | "connection_lost" | "invalid_response" | "timeout"
  /** The connection had served before, and was gone before the answer began: a fresh one may do. */
  readonly stale: boolean
}> {}

/** No more of an answer's header section is read, nor of its trailers. */
const headerLimit = 16_384

/** How long an address has to itself before the next one is tried, in ms; the last one has until the deadline. */
const attemptTimeout = 1_000

type Options = RequestOptions &
  Pick<TcpSocketConnectOpts, "autoSelectFamily" | "autoSelectFamilyAttemptTimeout"> & { readonly servername: string }

/**
 * Makes the request on a kept connection, or on a new one. Interruption destroys the connection. `onReady` is called when
 * the connection stands, TLS included: before that nothing of the request is written.
 */
export const exchange = (
  agents: Agents,
  post: Post,
  onReady: () => void = () => {}
): Effect.Effect<Answer, ExchangeFailed> =>
  Effect.callback((done) => {
    const host = hostOf(post.url)
    const secure = post.url.protocol === "https:"
    const options: Options = {
      method: "POST",
      host,
      port: post.url.port,
      path: `${post.url.pathname}${post.url.search}`,
      headers: {
        ...post.headers,
        // An answer is short, and its limit is of what comes: it need not be packed.
        "accept-encoding": "identity",
        "content-length": Buffer.byteLength(post.body)
      },
      // In TLS a name has no dot at its end (RFC 6066, section 3), and an address is no name.
      servername: isIP(host) === 0 ? host.replace(/\.$/, "") : "",
      agent: secure ? agents.https : agents.http,
      ...(post.addresses === undefined ? {} : { lookup: pinned(post.addresses) }),
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: attemptTimeout,
      maxHeaderSize: headerLimit
    }
    const request = secure ? overTls(options) : overTcp(options)
    // Not `Effect.timeout`: that takes two fibers for each request, and costs as much as all else around it.
    const timer =
      post.until === undefined
        ? undefined
        : setTimeout(
            () => {
              resume(Effect.fail(new ExchangeFailed({ code: "timeout", stale: false })))
              request.destroy()
            },
            Math.ceil(post.until - performance.now())
          )
    const resume: typeof done = (effect) => {
      clearTimeout(timer)
      done(effect)
    }
    const connection = watch(request, secure, () => {
      onReady()
      request.end(post.body)
    })
    let answer: IncomingMessage | undefined
    const chunks: Array<Uint8Array> = []
    const answered = (answer: IncomingMessage, body: Option.Option<Uint8Array>) =>
      resume(
        Effect.succeed({
          status: answer.statusCode ?? 0,
          retryAfter: Option.fromUndefinedOr(answer.headers["retry-after"]),
          body
        })
      )
    // What comes after a whole answer, of whatever kind, takes nothing from it.
    const end = (error?: NodeJS.ErrnoException) =>
      answer?.complete === true
        ? answered(answer, Option.some(Buffer.concat(chunks)))
        : resume(Effect.fail(connection.failure(error)))
    request
      .on("response", (response) => {
        let read = 0
        answer = response
          .on("data", (chunk: Uint8Array) => {
            chunks.push(chunk)
            read += chunk.byteLength
            if (read < post.bodyLimit) return
            answered(response, Option.none())
            request.destroy()
          })
          .on("end", () => {
            // A tick later the connection is free for the next request.
            setImmediate(end)
            // An answer that did not wait for the whole request: nobody would read the rest.
            if (!request.writableFinished) request.destroy()
          })
          // The request's own error, if there is one, tells more and comes first.
          .on("error", () => end())
      })
      // Nobody asked for another protocol.
      .on("upgrade", (_, socket) => {
        socket.destroy()
        resume(Effect.fail(new ExchangeFailed({ code: "invalid_response", stale: false })))
      })
      // Of a whole answer some may still wait to be read: that comes before the close.
      .on("error", (error) => {
        if (answer?.complete !== true) end(error)
      })
      // Whatever else there may be.
      .on("close", () => setImmediate(end))
    return Effect.sync(() => {
      clearTimeout(timer)
      request.destroy()
    })
  })

/** In place of a look-up: the addresses that were checked, and no others. */
const pinned =
  (addresses: ReadonlyArray<string>): LookupFunction =>
  (_, __, callback) =>
    callback(
      null,
      addresses.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
    )

/** Follows a request's connection, to tell when it is ready, and what a failure means. */
const watch = (request: ClientRequest, secure: boolean, onReady: () => void) => {
  let code: ExchangeFailed["code"] = "connect_failed"
  let begun = () => false
  const ready = () => {
    code = "connection_lost"
    onReady()
  }
  request.on("socket", (socket: Socket) => {
    const before = socket.bytesRead
    begun = () => socket.bytesRead > before
    if (request.reusedSocket) return ready()
    // Between two requests a kept connection is without a listener for a moment; an error then would end the process.
    socket.on("error", () => {})
    socket.once("lookup", (error) => {
      if (error !== null) code = "dns_failed"
    })
    socket.once("connect", () => {
      if (!secure) return ready()
      code = "tls_failed"
    })
    socket.once("secureConnect", ready)
  })
  return {
    failure: (error: NodeJS.ErrnoException | undefined) => {
      if (error?.code?.startsWith("HPE_") === true) {
        return new ExchangeFailed({ code: "invalid_response", stale: false })
      }
      // Such as the alert by which a server of TLS 1.3 refuses us, after the handshake.
      if (error?.code?.startsWith("ERR_SSL_") === true) return new ExchangeFailed({ code: "tls_failed", stale: false })
      return new ExchangeFailed({ code, stale: request.reusedSocket && !begun() })
    }
  }
}
