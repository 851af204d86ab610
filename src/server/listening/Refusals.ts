/**
 * Answers to data that cannot be routed as a request. Such an answer is sent after the answers to all earlier requests of the
 * connection (RFC 9112, section 9.3.2). Then the connection is closed.
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { HeadersTooLarge, RequestTimeout, RouteNotFound, ValidationFailed } from "../../api/Problems.ts"
import { type CurrentRequestShape, newRequestState } from "../../platform/CurrentRequest.ts"
import { type Problem, problemResponse } from "../ProblemResponse.ts"

/**
 * Maximum times for a header section and for a whole request, in milliseconds (contract §1). Without these limits, connections
 * that send slowly or nothing would accumulate. A body of 256 KiB arrives in time at 70 kbit/s.
 */
export const headersTimeout = 15_000
export const requestTimeout = 30_000

/**
 * Time in milliseconds without traffic after which a connection ends, if its answers are not read (contract §1). Without this
 * limit, a caller who reads nothing would hold the connection and the answers forever.
 */
export const stallTimeout = 30_000

/**
 * Time in milliseconds without traffic after which a connection ends if its caller has ended its side (contract §1). The caller
 * may have gone, or may still wait for an answer. The requests in flight end with the connection.
 */
export const endedTimeout = 2_000

/**
 * Milliseconds for which a refused connection stays open after its last answer is sent. If it closed at once, the answer might
 * be lost.
 */
const lingering = 1_000

/** Node's error for a request. An error of Node's parser has a `reason`: a fixed text that says what was not accepted. */
type ClientError = NodeJS.ErrnoException & { readonly rawPacket?: Uint8Array; readonly reason?: string }

/**
 * Creates the listeners that refuse connections of one server. The server calls `enter` and `leave` for each of its responses.
 */
export const makeRefusals = () => {
  /** Responses that are not complete. The responses of one connection are in the order of its requests. */
  const unanswered = new Set<ServerResponse>()
  /** For each connection, the latest request that was answered before it had arrived completely. */
  const answeredEarly = new WeakMap<Duplex, IncomingMessage>()
  const refused = new WeakSet<Duplex>()
  const unansweredOn = (socket: Duplex) => [...unanswered].filter(({ req }) => req.socket === socket)

  /**
   * Sends the answer to the refused request, once every request of the connection that has arrived completely is answered. Sends
   * nothing if another answer to the refused request has begun.
   */
  const answer = (socket: Duplex, problem: Problem, request: CurrentRequestShape, isHead: boolean): void => {
    const pending = unansweredOn(socket)
    const last = pending.findLast(({ req }) => req.complete)
    if (last !== undefined) {
      last.once("close", () => answer(socket, problem, request, isHead))
      return
    }
    const isAnswered = answeredEarly.get(socket)?.complete === false || pending.some(({ headersSent }) => headersSent)
    if (socket.writable && !isAnswered) write(socket, problem, request, isHead)
    socket.pause().end()
    setTimeout(() => socket.destroy(), lingering).unref()
  }

  /** Answers, and reads nothing more from the connection, so that no later request on it has an effect. */
  const refuse = (socket: Duplex, problem: Problem, request: CurrentRequestShape, isHead: boolean) => {
    if (refused.has(socket)) return
    refused.add(socket)
    socket.pause()
    answer(socket, problem, request, isHead)
  }

  return {
    enter: (response: ServerResponse): void => void unanswered.add(response),
    leave: (response: ServerResponse): void => {
      unanswered.delete(response)
      if (!response.req.complete) answeredEarly.set(response.req.socket, response.req)
    },

    /** Refuses bytes that Node's parser does not accept, and requests that do not arrive in time. */
    onClientError: (error: ClientError, socket: Duplex): void => {
      if (!socket.writable || error.code === "ECONNRESET") {
        socket.destroy()
        return
      }
      const [first] = unansweredOn(socket)
      const isHead = first === undefined ? startsWithHead(error) : !first.req.complete && first.req.method === "HEAD"
      refuse(socket, problemOf(error), newRequestState(undefined, ""), isHead)
    },

    /**
     * Ends a connection without traffic. Only a caller who waits for an answer keeps the connection open. This caller must have
     * read all earlier answers, and must not have ended its side.
     */
    onTimeout: (socket: Duplex): void => {
      if (socket.readableEnded || socket.writableLength > 0 || unansweredOn(socket).length === 0) socket.destroy()
    },

    /** Refuses CONNECT. Node does not close the connection or its incomplete responses, so this listener does. */
    onConnect: (request: IncomingMessage, socket: Duplex): void => {
      socket.on("error", () => socket.destroy())
      socket.once("close", () => {
        for (const response of unansweredOn(socket)) response.emit("close")
      })
      // The target of CONNECT must be a host and a port (RFC 9112, section 3.2.3).
      const problem =
        request.url?.startsWith("/") === true
          ? malformed("The target of CONNECT is a host and a port")
          : new RouteNotFound({ detail: "The target of CONNECT is no path of this service." })
      refuse(socket, problem, newRequestState(request.headers["x-request-id"], ""), false)
    }
  }
}

const problemOf = ({ code, message, reason = message }: ClientError) => {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new HeadersTooLarge({ detail: "A request's header section has at most 16 KiB." })
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new RequestTimeout({
        detail: `A header section has to arrive within ${headersTimeout / 1_000} s, a request within ${requestTimeout / 1_000} s.`
      })
    default:
      return malformed(reason)
  }
}

const malformed = (reason: string) =>
  new ValidationFailed({
    detail: "See errors: request.",
    errors: { request: [`must be well-formed HTTP/1.1: ${reason}`] }
  })

const startsWithHead = ({ rawPacket }: ClientError) =>
  rawPacket !== undefined && Buffer.from(rawPacket.subarray(0, 5)).toString() === "HEAD "

const write = (socket: Duplex, problem: Problem, request: CurrentRequestShape, isHead: boolean) => {
  const { body, headers, status } = problemResponse(problem, request)
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...Object.entries({ ...headers, "x-request-id": request.id }).map(([name, value]) => `${name}: ${value}`),
    "connection: close"
  ]
  socket.write(`${head.join("\r\n")}\r\n\r\n`)
  if (!isHead && body._tag === "Uint8Array") socket.write(body.body)
}
