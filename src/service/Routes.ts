/** Finds the HTTP methods of a path, because the router does not expose them. */
import { Context } from "effect"
import type { paths as consolePaths } from "../console/Console.ts"
import { Access } from "../api/Access.ts"
import { endpoints } from "../api/Api.ts"
import { paths as docsPaths } from "../documents/Docs.ts"
import { paths as discoveryPaths } from "../documents/Discovery.ts"

/** Returns the methods of a path (without its query); none if the path is unknown. */
export type Methods = (path: string) => ReadonlyArray<string>

interface Route {
  readonly method: string
  readonly pattern: RegExp
  /** Whether the path has no parameters. */
  readonly isLiteral: boolean
}

const get = (path: string): Route => ({
  method: "GET",
  pattern: new RegExp(`^${path.replaceAll(".", "\\.")}$`),
  isLiteral: true
})

/**
 * HEAD is allowed where GET is. A path that is documented without parameters has its documented methods alone, although
 * `audience-segments` and `templates` could also be ids of campaigns, and `batch` that of a client or a deal.
 */
const methodsOf =
  (routes: ReadonlyArray<Route>): Methods =>
  (path) => {
    const matching = routes.filter(({ pattern }) => pattern.test(path))
    const literal = matching.filter(({ isLiteral }) => isLiteral)
    const methods = (literal.length > 0 ? literal : matching).map(({ method }) => method)
    return [...new Set(methods.flatMap((method) => (method === "GET" ? ["GET", "HEAD"] : [method])))]
  }

const operations = endpoints().map(({ endpoint: { annotations, method, path } }) => ({
  method,
  pattern: new RegExp(`^${path.replaceAll(".", "\\.").replace(/:[A-Za-z]+/g, "[^/]+")}$`),
  isLiteral: !path.includes(":"),
  isSend: Context.getUnsafe(annotations, Access).policy === "messages"
}))
const sends = operations.filter(({ isSend }) => isSend)

/** Whether a request to a path (without its query) is a message send, which has a 503 problem of its own (contract §8). */
export const isSend = (method: string, path: string): boolean =>
  sends.some((send) => send.method === method && send.pattern.test(path))

const health = [get("/healthz"), get("/readyz")]

/** `mcp` tells whether the port serves agents. */
export const mainRoutes = (mcp: boolean): Methods =>
  methodsOf([
    ...operations,
    ...health,
    ...[...docsPaths, ...discoveryPaths].map(get),
    ...(mcp ? [{ ...get("/mcp"), method: "POST" }] : [])
  ])

export const workerRoutes = methodsOf(health)

export const metricsRoutes = methodsOf([get("/metrics")])

export const adminRoutes = (console: typeof consolePaths): Methods =>
  methodsOf([get("/"), get("/metrics"), ...console.map(([method, path]) => ({ ...get(path), method }))])
