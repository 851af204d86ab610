/** Which paths there are, for what the router can't tell: the methods that a path knows. */
import { Context } from "effect"
import * as HttpApi from "effect/http-api/HttpApi"
import { paths as consolePaths } from "../console/Console.ts"
import { Access } from "../api/Access.ts"
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
const sends: Array<Route> = []
HttpApi.reflect(Api, {
  onGroup: () => {},
  onEndpoint: ({ endpoint: { annotations, method, path } }) => {
    const pattern = new RegExp(`^${path.replaceAll(".", "\\.").replace(/:[A-Za-z]+/g, "[^/]+")}$`)
    operations.push({ method, pattern })
    if (Context.getUnsafe(annotations, Access).policy === "messages") sends.push({ method, pattern })
  }
})

/** Whether a request to a path (without its query) is a message send, whose 503 means one thing alone (contract §4). */
export const isSend = (method: string, path: string): boolean =>
  sends.some((send) => send.method === method && send.pattern.test(path))

const health = [get("/healthz"), get("/readyz")]

/** The main port. */
export const mainRoutes = methodsOf([...operations, ...health, get("/openapi.json"), get("/docs")])

/** A process that runs the background fibers alone. */
export const workerRoutes = methodsOf(health)

/** The operators' port. */
export const adminRoutes = methodsOf([
  get("/metrics"),
  ...consolePaths.map(([method, path]) => ({ ...get(path), method }))
])
