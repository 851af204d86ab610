/** One request and its answer over HTTP/1.1, with limits on what the other side may do. */
import { Data, Effect, Option } from "effect"
import { type ClientRequest, type IncomingMessage, request as overTcp, type RequestOptions } from "node:http"
import { request as overTls } from "node:https"
import { isIP, isIPv6, type LookupFunction, type Socket, type TcpSocketConnectOpts } from "node:net"
import type { Agents } from "./Agents.ts"

/** What goes to the other side, and where that is. */
export interface Post {
  readonly url: URL
  /** The URL's host, without brackets. */
  readonly host: string
  /** Where the host is, one at least: a connection goes to one of these. Not asked where the host is an address. */
  readonly addresses: ReadonlyArray<string>
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
  /** Until when there has to be an answer, by the clock of `performance.now()`. */
  readonly until: number
}

/** An answer that came to its end, or to the limit of what is read of it. */
export interface Answer {
  readonly status: number
  /** The header as it came. */
  readonly retryAfter: Option.Option<string>
}

/** No answer, or not a whole one. */
export class ExchangeFailed extends Data.TaggedError("ExchangeFailed")<{
  readonly code: "connect_failed" | "tls_failed" | "connection_lost" | "invalid_response" | "timeout"
  /** The connection had served before, and was gone before the answer began: a fresh one may do. */
  readonly stale: boolean
}> {}

/** No more of an answer's body is read. */
const bodyLimit = 16_384

/** No more of an answer's header section is read, nor of its trailers. */
const headerLimit = 16_384

/** How long an address has to itself before the next one is tried, in ms; the last one has until the deadline. */
const attemptTimeout = 1_000

type Options = RequestOptions &
  Pick<TcpSocketConnectOpts, "autoSelectFamily" | "autoSelectFamilyAttemptTimeout"> & { readonly servername: string }

/** Makes the request on a kept connection, or on a new one. Interruption destroys the connection. */
export const exchange = (agents: Agents, post: Post): Effect.Effect<Answer, ExchangeFailed> =>
  Effect.callback((done) => {
    const secure = post.url.protocol === "https:"
    const options: Options = {
      method: "POST",
      host: post.host,
      port: post.url.port,
      path: `${post.url.pathname}${post.url.search}`,
      headers: {
        ...post.headers,
        // Only the length of what comes is of interest, so it need not be packed.
        "accept-encoding": "identity",
        "content-length": post.body.byteLength
      },
      // In TLS a name has no dot at its end (RFC 6066, section 3), and an address is no name.
      servername: isIP(post.host) === 0 ? post.host.replace(/\.$/, "") : "",
      agent: secure ? agents.https : agents.http,
      lookup: pinned(post.addresses),
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: attemptTimeout,
      maxHeaderSize: headerLimit
    }
    const request = secure ? overTls(options) : overTcp(options)
    // Not `Effect.timeout`: that takes two fibers for each delivery, and costs as much as all else around the request.
    const timer = setTimeout(
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
    const connection = watch(request, secure)
    let answer: IncomingMessage | undefined
    const answered = (answer: IncomingMessage) =>
      resume(
        Effect.succeed({
          status: answer.statusCode ?? 0,
          retryAfter: Option.fromUndefinedOr(answer.headers["retry-after"])
        })
      )
    // What comes after a whole answer, of whatever kind, takes nothing from it.
    const end = (error?: NodeJS.ErrnoException) =>
      answer?.complete === true ? answered(answer) : resume(Effect.fail(connection.failure(error)))
    request
      .on("response", (response) => {
        let read = 0
        answer = response
          .on("data", (chunk: Uint8Array) => {
            read += chunk.byteLength
            if (read < bodyLimit) return
            answered(response)
            request.destroy()
          })
          .on("end", () => {
            // A tick later the connection is free for the next delivery.
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
      .on("error", end)
      // Whatever else there may be.
      .on("close", () => setImmediate(end))
      .end(post.body)
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

/** Follows a request's connection, to tell what a failure means. */
const watch = (request: ClientRequest, secure: boolean) => {
  let code: ExchangeFailed["code"] = "connect_failed"
  let begun = () => false
  request.on("socket", (socket: Socket) => {
    const before = socket.bytesRead
    begun = () => socket.bytesRead > before
    if (request.reusedSocket) {
      code = "connection_lost"
      return
    }
    // Between two requests a kept connection is without a listener for a moment; an error then would end the process.
    socket.on("error", () => {})
    socket.once("connect", () => {
      code = secure ? "tls_failed" : "connection_lost"
    })
    socket.once("secureConnect", () => {
      code = "connection_lost"
    })
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
