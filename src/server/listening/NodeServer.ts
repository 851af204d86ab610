/**
 * Node's HTTP server on one address, with timeouts, a count of requests in flight, and problems instead of Node's own error
 * answers.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Clock, Context, Data, Effect, Layer, Logger, References, Scope, Tracer } from "effect"
import { HttpServer, HttpServerRequest } from "effect/http"
import { createServer, ServerResponse } from "node:http"
import { PublicUrl } from "../../platform/requests/Responses.ts"
import { MetricsEnabled } from "../../platform/telemetry/MetricsEnabled.ts"
import { Drain } from "./Drain.ts"
import { endedTimeout, headersTimeout, makeRefusals, requestTimeout, stallTimeout } from "./Refusals.ts"

export class CannotListen extends Data.TaggedError("CannotListen")<{
  readonly message: string
  readonly cause: unknown
}> {}

/** In ms. Load balancers close idle connections after 60 s. This time is longer, so that the load balancer closes first. */
const keepAliveTimeout = 75_000

/** Interval in ms at which Node checks `headersTimeout` and `requestTimeout`. */
const connectionsCheckingInterval = 2_000

/**
 * Writes header and body with one system call. Effect's adapter for Node sets `strictContentLength`, which makes Node compare
 * `content-length` with the body and end each answer with another write. This class ignores the setting, because this service
 * always sends the length of the body.
 */
class SingleWriteResponse extends ServerResponse {}
Object.defineProperty(SingleWriteResponse.prototype, "strictContentLength", { get: () => false, set: () => {} })

const make = Effect.fnUntraced(function* (host: string, port: number) {
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
  const refusals = makeRefusals()
  const count = (_: unknown, response: ServerResponse) => {
    const leave = drain.enter()
    refusals.enter(response)
    response.once("close", () => {
      refusals.leave(response)
      leave()
    })
  }
  server.on("request", count)
  server.on("checkContinue", count)
  // Unknown expectations are ignored (RFC 9110, section 10.1.1), as are offers to switch the protocol (as by curl --http2). Node
  // would answer an unknown expectation without problem details.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response))
  server.on("clientError", refusals.onClientError)
  server.on("connect", refusals.onConnect)
  server.setTimeout(stallTimeout, refusals.onTimeout)
  // A caller may end its side of the connection after its last request (RFC 9112, section 9.6). By default, Node then sends no
  // answer. Node's types do not declare `httpAllowHalfOpen`, hence `Object.assign`.
  Object.assign(server, { httpAllowHalfOpen: true })
  server.on("connection", (socket) => socket.once("end", () => socket.setTimeout(endedTimeout)))
  const listening = yield* Effect.mapError(
    NodeHttpServer.make(() => server, { host, port, gracefulShutdownTimeout: 1_000 }),
    ({ cause }) =>
      new CannotListen({
        message: `Can't listen on ${host}:${port}: ${reasonOf(cause)}; PORT and ADMIN_PORT set other ports`,
        cause
      })
  )
  // Runs before the server's own finalizer, which waits for every connection to end.
  yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
  return HttpServer.make({
    address: listening.address,
    serve: (app, middleware) =>
      withRoomForRequests(middleware === undefined ? listening.serve(app) : listening.serve(app, middleware))
  })
})

/** Closes open connections when the scope closes. */
export const layer = (host: string, port: number) =>
  Layer.effect(HttpServer.HttpServer, make(host, port)).pipe(Layer.merge(NodeHttpServer.layerHttpServices))

export const layerPreferring = (host: string, port: number) =>
  Layer.effect(
    HttpServer.HttpServer,
    Effect.catch(make(host, port), () => make(host, 0))
  ).pipe(Layer.merge(NodeHttpServer.layerHttpServices))

/**
 * Serves with a context of what requests read, because each request merges it with its group's context
 * (`platform/requests/Groups.ts`). It can hold 16 services of a request (the default is 8) before its map is copied.
 */
const withRoomForRequests = <A, E, R>(serve: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    fiber.setContext(Context.makeUnsafe(ofRequests(fiber.context).mapUnsafe, { maxDepth: 16 }))
    return serve
  })

/** Requests read these references. All other services are captured by layers. */
const ofRequests = Context.pick(
  Scope.Scope,
  Clock.Clock,
  Tracer.Tracer,
  References.MinimumLogLevel,
  References.TracerEnabled,
  Logger.CurrentLoggers,
  HttpServerRequest.MaxBodySize,
  MetricsEnabled,
  PublicUrl
)

const reasonOf = (cause: unknown) => (cause instanceof Error ? cause.message : String(cause))
