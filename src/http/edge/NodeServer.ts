/**
 * Node's HTTP server on one address, around the routes of a port (`service/Ports.ts`):
 *
 *   connection   one of a bounded number; ends after a minute without traffic, or when too many bytes are unread (`InFlight.ts`)
 *     request    arrives within a time, and counts as in flight until its answer is sent
 *       scope    has the fiber of the request, and is used again by later requests
 *         app    `service/Lifecycle.ts`, then the route
 *
 * What Node's parser does not accept, or does not get in time, reaches no route: `onClientError` answers it.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Clock, Context, Data, Effect, Layer, Logger, References, Scope, Tracer } from "effect"
import { HttpMiddleware, HttpServer, HttpServerRequest, type HttpServerResponse } from "effect/http"
import { createServer, type Server, type ServerResponse, STATUS_CODES } from "node:http"
import type { Duplex } from "node:stream"
import { HeadersTooLarge, RequestTimeout, ValidationFailed } from "../../api/Problems.ts"
import { newRequestState } from "../../platform/CurrentRequest.ts"
import { listensOn } from "../../outbound/Connections.ts"
import { PublicUrl } from "../path/Handlers.ts"
import { MetricsEnabled } from "../../telemetry/Telemetry.ts"
import { renderProblem } from "../path/ProblemResponse.ts"
import { Answer, Drain, Unread } from "./InFlight.ts"
import { readFileSync } from "node:fs"

class CannotListen extends Data.TaggedError("CannotListen")<{
  readonly message: string
  readonly cause: unknown
}> {}

/**
 * Maximum times for a header section and for a whole request, in milliseconds (contract §1). Without these limits, connections
 * that send slowly or nothing would accumulate. A body of 256 KiB arrives in time at 70 kbit/s.
 */
const headersTimeout = 15_000
const requestTimeout = 30_000

const make = Effect.fnUntraced(function* (host: string, port: number) {
  const drain = yield* Drain
  const unread = yield* Unread
  const server = createServer({
    ServerResponse: Answer,
    // Load balancers close idle connections after 60 s. This time is longer, so that they close first.
    keepAliveTimeout: 75_000,
    headersTimeout,
    requestTimeout,
    connectionsCheckingInterval: 2_000,
    requireHostHeader: false,
    shouldUpgradeCallback: () => false
  })
  const count = (_: unknown, response: ServerResponse) => {
    const leave = drain.enter()
    response.once("close", () => {
      unread.remove(response)
      leave()
    })
  }
  server.on("connection", unread.connect)
  // A socket keeps an address that was read. The access log has it also if the caller closes the connection.
  server.on("connection", (socket) => void socket.remoteAddress)
  boundConnections(server)
  server.on("request", count)
  server.on("checkContinue", count)
  // Unknown expectations are ignored (RFC 9110, section 10.1.1), as are offers to switch the protocol (as by curl --http2). Node
  // would answer an unknown expectation without problem details.
  server.on("checkExpectation", (request, response) => server.emit("request", request, response))
  server.on("clientError", onClientError)
  // A connection without traffic ends (contract §1), for example because its answers are not read. So an operation
  // has less than this time.
  server.setTimeout(60_000)
  const listening = yield* Effect.mapError(
    NodeHttpServer.make(() => server, { host, port, gracefulShutdownTimeout: 1_000 }),
    ({ cause }) =>
      new CannotListen({
        message: `Can't listen on ${host}:${port}: ${cause instanceof Error ? cause.message : String(cause)}; PORT and ADMIN_PORT set other ports`,
        cause
      })
  )
  if ("port" in listening.address) yield* listensOn(listening.address.port)
  // Runs before the server's own finalizer, which waits for every connection to end.
  yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
  return HttpServer.make({
    address: listening.address,
    serve: (app, middleware) => {
      const serve = middleware === undefined ? listening.serve(app) : listening.serve(app, middleware)
      return withRoomForRequests(handleInScopes(server, serve, app, middleware))
    }
  })
})

/**
 * Serves requests, with their fibers in scopes that are used again. Effect's own handler keeps the fibers of all requests in the map of
 * one scope: of a list, V8 then promotes 7 to 14 KB instead of 0.7, and the slowest hundredth takes three times as long (`bench requests`,
 * in turns, 2026-11-29). Effect's handler still has the requests that wait for `100 Continue`.
 */
const handleInScopes = Effect.fnUntraced(function* (
  server: Server,
  serve: Effect.Effect<void, never, Scope.Scope>,
  app: Effect.Effect<HttpServerResponse.HttpServerResponse, unknown, HttpServerRequest.HttpServerRequest | Scope.Scope>,
  middleware: HttpMiddleware.HttpMiddleware | undefined
) {
  const scopes: Array<Scope.Closeable> = []
  const free: Array<Scope.Closeable> = []
  const newScope = () => {
    const scope = Scope.makeUnsafe()
    scopes.push(scope)
    return scope
  }
  let scope = newScope()
  // Added before that of `serve`, so it runs afterwards: the server then takes no more requests.
  yield* Effect.addFinalizer((exit) =>
    Effect.forEach(scopes, (scope) => Scope.close(scope, exit), { concurrency: "unbounded", discard: true })
  )
  const handle = yield* NodeHttpServer.makeHandler(app, {
    middleware,
    // Read for each request.
    get scope() {
      return scope
    }
  })
  yield* serve
  // `serve` has added Effect's own handler as the last listener, which the one below replaces.
  const [added] = server.listeners("request").slice(-1)
  if (added !== undefined) server.off("request", added)
  server.on("request", (request, response) => {
    const own = (scope = free.pop() ?? newScope())
    handle(request, response)
    response.once("close", () => free.push(own))
  })
})

/** Answers bytes that Node's parser does not accept and requests that do not arrive in time, and ends the connection. */
const onClientError = ({ code }: NodeJS.ErrnoException, socket: Duplex): void => {
  if (!socket.writable || code === "ECONNRESET") {
    socket.destroy()
    return
  }
  socket.pause().end(refusalOf(code))
  // It stays open for a second, so that the answer is not lost.
  setTimeout(() => socket.destroy(), 1_000).unref()
}

const refusalOf = (code: string | undefined): string => {
  const current = newRequestState(undefined, "")
  const { body, status } = renderProblem(refusedAs(code), current)
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    "content-type: application/problem+json",
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${current.id}`,
    "connection: close",
    "",
    body
  ].join("\r\n")
}

const refusedAs = (code: string | undefined) => {
  switch (code) {
    case "HPE_HEADER_OVERFLOW":
      return new HeadersTooLarge()
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new RequestTimeout({ detail: RequestTimeout.detail(headersTimeout, requestTimeout) })
    default:
      return new ValidationFailed({ errors: { request: ["must be well-formed HTTP/1.1"] } })
  }
}

/** Closes open connections when the scope closes. */
export const layer = (host: string, port: number) => layerOf(make(host, port))

/** Listens on another port if this one is taken. */
export const layerPreferring = (host: string, port: number) =>
  layerOf(Effect.catch(make(host, port), () => make(host, 0)))

const layerOf = (server: ReturnType<typeof make>) =>
  Layer.effect(HttpServer.HttpServer, server).pipe(Layer.merge(NodeHttpServer.layerHttpServices))

/**
 * Serves with a context of what requests read, because each request merges it with its group's context
 * (`http/path/Handlers.ts`). It can hold 16 services of a request (the default is 8) before its map is copied.
 */
const withRoomForRequests = <A, E, R>(serve: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.withFiber((fiber) => {
    const context = Context.add(pickReferences(fiber.context), HttpMiddleware.TracerDisabledWhen, isProbe)
    fiber.setContext(Context.makeUnsafe(context.mapUnsafe, { maxDepth: 16 }))
    return serve
  })

/** Whether a request is a check of health or reads the metrics. Such requests come every few seconds, and have no traces. */
const isProbe = ({ url }: HttpServerRequest.HttpServerRequest) => /^\/(?:healthz|readyz|metrics)(?:[?;#]|$)/.test(url)

/** Requests read these references. All other services are captured by layers. */
const pickReferences = Context.pick(
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

/** The limit of open files; a low one where the system does not tell it. */
const openFiles = (): number => {
  try {
    return Number(/^Max open files +(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1] ?? Infinity)
  } catch {
    return 1_024
  }
}

/**
 * Bounds the open connections of a server, so that file descriptors are left for PostgreSQL, calls to others and files: to a quarter
 * of them, and to 20,000, which take 280 MB of memory. Idle connections end before new ones are refused.
 */
const boundConnections = (server: Server): void => {
  server.maxConnections = Math.min(20_000, Math.floor(openFiles() / 4))
  let open = 0
  let next = 0
  server.on("connection", (socket) => {
    open++
    socket.once("close", () => open--)
    if (open < 0.9 * server.maxConnections || performance.now() < next) return
    next = performance.now() + 250
    server.closeIdleConnections()
  })
}
