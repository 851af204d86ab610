/** The listening socket, and the answers to malformed requests, which have no route. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Data, Effect, Layer } from "effect"
import { HttpServer } from "effect/http"
import { createServer, ServerResponse, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { HeadersTooLarge, RequestTimeout, ValidationFailed } from "../api/Problems.ts"
import { newRequestState } from "../platform/CurrentRequest.ts"
import { Drain } from "./Drain.ts"
import { problemResponse } from "./ProblemResponse.ts"

/** The server cannot listen on its address. */
export class CannotListen extends Data.TaggedError("CannotListen")<{
  readonly message: string
  readonly cause: unknown
}> {}

/** In ms; longer than the 60 s for which load balancers keep idle connections, so that they close them first. */
const keepAliveTimeout = 75_000

/**
 * Time for a header section and for a whole request, in milliseconds (contract §1): connections that send slowly, or
 * nothing, must not accumulate. A body of 256 KiB needs 70 kbit/s.
 */
const headersTimeout = 15_000
const requestTimeout = 30_000
const connectionsCheckingInterval = 2_000

/**
 * Writes header and body with one system call. The adapter makes Node compare `content-length` with the body of each answer,
 * for which Node would end the answer with a write of its own. Both come from the same bytes here.
 */
class SingleWriteResponse extends ServerResponse {}
Object.defineProperty(SingleWriteResponse.prototype, "strictContentLength", { get: () => false, set: () => {} })

/** Serves on one address. Connections that are open when the scope closes are closed. */
export const layer = (host: string, port: number) =>
  Layer.effect(
    HttpServer.HttpServer,
    Effect.gen(function* () {
      const drain = yield* Drain
      const server = createServer({
        ServerResponse: SingleWriteResponse,
        keepAliveTimeout,
        headersTimeout,
        requestTimeout,
        connectionsCheckingInterval,
        requireHostHeader: false,
        shouldUpgradeCallback: () => false
      })
      const count = (_: unknown, response: ServerResponse) => response.once("close", drain.enter())
      server.on("request", count)
      server.on("checkContinue", count)
      // Offers to switch the protocol (as by curl --http2) are ignored.
      // Unknown expectations are ignored as well (RFC 9110, 10.1.1); Node would answer them without a problem.
      server.on("checkExpectation", (request, response) => server.emit("request", request, response))
      server.on("clientError", refuse)
      const listening = yield* Effect.mapError(
        NodeHttpServer.make(() => server, { host, port, gracefulShutdownTimeout: 1_000 }),
        ({ cause }) => new CannotListen({ message: `Can't listen on ${host}:${port}: ${reasonOf(cause)}`, cause })
      )
      // Runs before the server's own finalizer, which waits for every connection to end.
      yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
      return HttpServer.make({
        address: listening.address,
        serve: (app, middleware) =>
          withRoomForRequests(middleware === undefined ? listening.serve(app) : listening.serve(app, middleware))
      })
    })
  ).pipe(Layer.merge(NodeHttpServer.layerHttpServices))

/**
 * Serves with a context that holds up to 16 services of a request as overlays. Beyond the default of 8, each request would
 * copy the map of all services.
 */
const withRoomForRequests = <A, E, R>(serve: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    fiber.setContext(Context.makeUnsafe(fiber.context.mapUnsafe, { maxDepth: 16 }))
    return serve
  })

const reasonOf = (cause: unknown) => (cause instanceof Error ? cause.message : String(cause))

/** The problem of a request that is not complete, by the code of Node's error. */
const problemOf = (code: string | undefined) => {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new HeadersTooLarge({ detail: "A request's header section has at most 16 KiB." })
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new RequestTimeout({
        detail: `A header section has to arrive within ${headersTimeout / 1_000} s, a request within ${requestTimeout / 1_000} s.`
      })
    default:
      return new ValidationFailed({ detail: "This is not a well-formed HTTP/1.1 request.", errors: {} })
  }
}

/** Answers what can't be routed as a request with a problem. */
const refuse = (error: NodeJS.ErrnoException & { readonly rawPacket?: Uint8Array }, socket: Duplex) => {
  if (!socket.writable || error.code === "ECONNRESET") return socket.destroy()
  const problem = problemOf(error.code)
  const request = newRequestState(undefined, "")
  const { body, headers, status } = problemResponse(problem, request)
  const bytes = body._tag === "Uint8Array" ? body.body : new Uint8Array()
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    ...Object.entries({ ...headers, "x-request-id": request.id }).map(([name, value]) => `${name}: ${value}`),
    "connection: close"
  ]
  socket.write(`${head.join("\r\n")}\r\n\r\n`)
  const isHead = error.rawPacket !== undefined && Buffer.from(error.rawPacket.subarray(0, 5)).toString() === "HEAD "
  return socket.end(isHead ? undefined : bytes)
}
