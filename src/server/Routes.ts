/** Which paths there are, for what the router can't tell: the methods that a path knows. */
import { HttpApi } from "effect/http-api"
import { Api } from "../api/Api.ts"

/** The methods that a path (without its query) knows; empty when nothing is there. */
export type Methods = (path: string) => ReadonlyArray<string>

interface Route {
  readonly method: string
  readonly pattern: RegExp
}

const get = (path: string): Route => ({ method: "GET", pattern: new RegExp(`^${path.replaceAll(".", "\\.")}$`) })

/** HEAD goes wherever GET goes. */
const methodsOf =
  (routes: ReadonlyArray<Route>): Methods =>
  (path) => {
    const methods = routes.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method)
    return methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method]))
  }

const operations: Array<Route> = []
HttpApi.reflect(Api, {
  onGroup: () => {},
  onEndpoint: ({ endpoint: { method, path } }) => {
    operations.push({ method, pattern: new RegExp(`^${path.replaceAll(".", "\\.").replace(/:[A-Za-z]+/g, "[^/]+")}$`) })
  }
})

const health = [get("/healthz"), get("/readyz")]

/** The main port. */
export const mainRoutes = methodsOf([...operations, ...health, get("/openapi.json"), get("/docs")])

/** A process that runs the background fibers alone. */
export const workerRoutes = methodsOf(health)

/** The operators' port. */
export const adminRoutes = methodsOf([get("/metrics")])
