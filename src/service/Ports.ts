/**
 * The routes of each port: the API's, the operators', and that of a process with only background fibers. A request of the API passes, from
 * the outermost to the innermost, on a server of `http/edge/NodeServer.ts`:
 *
 *   Lifecycle.layer                   its id; refused while the process drains; unknown routes; the metrics and log of its answer
 *     Middleware.problems             the problem of a failure, as an answer
 *       Middleware.authentication     its token, what the token permits, the rate limit
 *         RequestShape.shape          its path, query and headers; of a request with a body, `body` checks them
 *           RequestShape.body         its body, which `JsonBody.ts` reads, then its whole shape
 *             handlers                the operation of the domain, and its answer (`http/path/Handlers.ts`)
 */
import { Context, Effect, Layer, Option } from "effect"
import { HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import { Sender } from "../webhooks/address/Sender.ts"
import { Preview } from "../imports/Preview.ts"
import { sqlClients } from "../sql/Connections.ts"
import { Settings } from "../platform/Settings.ts"
import * as Discovery from "../documents/Discovery.ts"
import * as Docs from "../documents/Docs.ts"
import * as Health from "./Health.ts"
import * as JsonBody from "../http/path/JsonBody.ts"
import * as Lifecycle from "./Lifecycle.ts"
import { adminUrl, isLoopbackHost, isOneOf, keep } from "../http/edge/AdminAddress.ts"
import * as Mcp from "../http/mcp/Mcp.ts"
import { adminRoutes, mainRoutes, type Methods, metricsRoutes, workerRoutes } from "./Routes.ts"
import * as NodeServer from "../http/edge/NodeServer.ts"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../api/Api.ts"
import * as CampaignsHttp from "../campaigns/Http.ts"
import * as CrmHttp from "../crm/Http.ts"
import * as ImportsHttp from "../imports/Http.ts"
import * as MessagingHttp from "../messaging/Http.ts"
import * as WebhooksHttp from "../webhooks/Http.ts"
import * as ProjectHttp from "../project/Http.ts"
import * as Middleware from "../http/path/Middleware.ts"
import * as RequestShape from "../http/path/RequestShape.ts"

/** The handlers of all operations. If a group is missing here, `operations` requires it. */
const handlers = Layer.mergeAll(
  ProjectHttp.handlers,
  CrmHttp.clients,
  CrmHttp.directory,
  CrmHttp.pipelines,
  CrmHttp.deals,
  CrmHttp.notes,
  CrmHttp.tickets,
  WebhooksHttp.installations,
  WebhooksHttp.webhooks,
  ImportsHttp.handlers,
  MessagingHttp.handlers,
  CampaignsHttp.handlers
)

/** The order in which requests pass it is that of `api/Api.ts` and of the endpoints. */
const middleware = Layer.mergeAll(Middleware.problems, Middleware.authentication, RequestShape.shape, RequestShape.body)

const operations = HttpApiBuilder.layer(Api).pipe(Layer.provide(handlers), Layer.provide(middleware))

/** The preview reads many rows. It uses the database connections for reports, so that it delays no other request of the API. */
const preview = Layer.provide(Preview.layer, sqlClients.reports)

/** `mcp`: whether each operation is also offered to agents as a tool. */
const api = (publicUrl: string, mcp: boolean) => {
  const provided = Layer.provide(operations, [preview, Sender.layerOfSettings])
  return mcp ? Mcp.layer(publicUrl, provided) : provided
}

/** Matches paths exactly, slashes included. The maximum length of a parameter is large, because schemas check lengths of ids. */
const routerConfig = {
  ignoreTrailingSlash: false,
  ignoreDuplicateSlashes: false,
  caseSensitive: true,
  maxParamLength: 16_384
}

const port = <A, E, R>(routes: Layer.Layer<A, E, R>, methods: Methods, serves?: (host: string) => boolean) =>
  HttpRouter.serve(routes.pipe(Layer.provideMerge(Lifecycle.layer(methods, serves))), {
    disableLogger: true,
    disableListenLog: true,
    routerConfig
  }).pipe(Layer.provide(JsonBody.limit))

export const main = (publicUrl: string, mcp: boolean) =>
  port(
    Layer.mergeAll(api(publicUrl, mcp), Docs.layer(publicUrl), Discovery.layer(publicUrl, mcp), Health.layer),
    mainRoutes(mcp)
  )

/** The health checks of a process that only runs background fibers. */
export const worker = port(Health.layer, workerRoutes)

/** Metrics for Prometheus alone, which scrapes by any name. */
export const metrics = port(PrometheusMetrics.layerHttp(), metricsRoutes)

const toConsole = HttpRouter.add("GET", "/", HttpServerResponse.redirect("/console"))

/**
 * Metrics for Prometheus, and the operators' console. The port accepts only a `Host` that is a name or an address of the loopback,
 * its own address or one of `ADMIN_ALLOWED_HOSTS`. Otherwise a web site whose name resolves to the port's address could reach it
 * from an operator's browser (DNS rebinding). The console is loaded only here, because a process may have no such port.
 */
const admin = Layer.unwrap(
  Effect.gen(function* () {
    const { adminAllowedHosts, adminHost } = yield* Settings
    const { layer, paths } = yield* Effect.promise(() => import("../console/Console.ts"))
    return port(
      Layer.mergeAll(PrometheusMetrics.layerHttp(), layer, toConsole),
      adminRoutes(paths),
      (host) => isLoopbackHost(host) || isOneOf(host, [adminHost, ...adminAllowedHosts])
    )
  })
)

/** The server for operators, on a port of its own (contract §14). */
export class AdminServer extends Context.Service<
  AdminServer,
  {
    /** The URL by which the server is reached from this host: `http://HOST:PORT`. */
    readonly url: string
  }
>()("developer-api-service/service/Ports/AdminServer") {
  /**
   * Listens on `ADMIN_PORT`. Without this setting: on the port after the service's port, or on a free port if that port is
   * in use.
   */
  static readonly layer = Layer.unwrap(
    Effect.gen(function* () {
      const { adminHost, adminPort } = yield* Settings
      const { address } = yield* HttpServer.HttpServer
      const next = "port" in address && address.port < 65_535 ? address.port + 1 : 0
      const server = Option.match(adminPort, {
        onSome: (port) => NodeServer.layer(adminHost, port),
        onNone: () => NodeServer.layerPreferring(adminHost, next)
      })
      return Layer.merge(admin, listening).pipe(Layer.provide(Layer.fresh(server)))
    })
  )
}

/** With the embedded database, the URL is also written to a file for the command `console`. */
const listening = Layer.effect(
  AdminServer,
  Effect.gen(function* () {
    const { adminHost, dataDir, databaseUrl } = yield* Settings
    const { address } = yield* HttpServer.HttpServer
    const url = "port" in address ? adminUrl(adminHost, address.port) : HttpServer.formatAddress(address)
    if (Option.isNone(databaseUrl)) yield* keep(dataDir, url)
    return { url }
  })
)
