/** The server for operators: metrics and the console, on a port of its own (contract §14). */
import { Context, Effect, Layer, Option } from "effect"
import { HttpServer } from "effect/http"
import { adminUrl, keep } from "../http/edge/ConsoleAddress.ts"
import { Settings } from "../platform/Settings.ts"
import * as Http from "./Ports.ts"
import * as NodeServer from "../http/edge/NodeServer.ts"

export class AdminServer extends Context.Service<
  AdminServer,
  {
    /** The URL by which the server is reached from this host: `http://HOST:PORT`. */
    readonly url: string
  }
>()("developer-api/service/AdminServer") {
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
      return Layer.merge(Http.admin, listening).pipe(Layer.provide(Layer.fresh(server)))
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
