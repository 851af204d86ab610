/**
 * The reference implementation: clients get, list, create and patch, written by hand on Fastify and pg as a good engineer
 * would, with the same work per request as the service: token, scopes, rate limit, request id, validation, statements, ETag,
 * replay, problems.
 *
 * Differences: it reports the faults of one slot of a request at a time, where the service gathers all (on its error path
 * only). It sends one statement at a time on each of its 20 connections, as pg does, where the service pipelines on as many
 * connections and watches their sockets.
 */
import Fastify, { type FastifyError } from "fastify"
import { randomUUID } from "node:crypto"
import pg from "pg"
import { clients } from "./fastify/Clients.ts"
import { isUnsafe } from "./fastify/Guard.ts"
import { invalid, Problem, send } from "./fastify/Problem.ts"

const { DATABASE_URL: connectionString = "", PORT = "0", SECRET_KEY: secret = "" } = process.env

// Converts "2026-11-20 10:00:00.12" of `timestamp` to the text of JSON without a `Date`.
pg.types.setTypeParser(
  pg.types.builtins.TIMESTAMP,
  (text) => `${text.slice(0, 10)}T${text.slice(11, 19)}.${text.slice(20).padEnd(3, "0")}Z`
)

const pool = new pg.Pool({
  connectionString,
  application_name: "fastify",
  max: 20,
  connectionTimeoutMillis: 4000,
  query_timeout: 4000,
  statement_timeout: 3500,
  lock_timeout: 1000,
  keepAlive: true
})
pool.on("error", (error) => process.stderr.write(`${error.message}\n`))

const malformed = () =>
  new Problem(400, "malformed_json", "The request body is not well-formed JSON.", "The body is not JSON.")

const unavailable = () =>
  new Problem(503, "service_unavailable", "The service is not available right now.", "The database does not answer.", {
    "retry-after": "1"
  })

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const parse = (bytes: Buffer): unknown => {
  try {
    const text = utf8.decode(bytes)
    const value: unknown = JSON.parse(text)
    // In valid UTF-8, such characters are possible only as escapes.
    if (text.includes("\\u") && isUnsafe(value)) throw invalid({ body: ["must not contain U+0000"] })
    return value
  } catch (error) {
    throw error instanceof Problem ? error : malformed()
  }
}

const slots: Record<string, string> = { body: "body", headers: "header", querystring: "query", params: "path" }

const problemOf = (error: FastifyError | Problem): Problem => {
  if (error instanceof Problem) return error
  if (error.validation !== undefined) {
    const slot = slots[error.validationContext ?? "body"] ?? "body"
    const faults = error.validation.map(({ instancePath, message = "is not valid", params }) => {
      const name = params["missingProperty"] ?? params["additionalProperty"]
      return [`${slot}${instancePath}${typeof name === "string" ? `/${name}` : ""}`, [message]] as const
    })
    return invalid(Object.fromEntries(faults))
  }
  switch (error.code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return new Problem(413, "body_too_large", "The request body is too large.", "A body has at most 262144 bytes.")
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return new Problem(415, "unsupported_media_type", "The request body is not application/json.", error.message)
    case "FST_ERR_CTP_EMPTY_JSON_BODY":
      return malformed()
    case "ECONNREFUSED":
    case "ECONNRESET":
      return unavailable()
    default:
      process.stderr.write(`${error.stack ?? error.message}\n`)
      return error.message.includes("timeout")
        ? unavailable()
        : new Problem(500, "internal", "The server failed to answer.", "The failure was logged.")
  }
}

const wellFormedId = /^[A-Za-z0-9._-]{1,128}$/

const app = Fastify({
  bodyLimit: 256 * 1024,
  keepAliveTimeout: 75_000,
  genReqId: ({ headers: { "x-request-id": id } }) =>
    typeof id === "string" && wellFormedId.test(id) ? id : randomUUID(),
  routerOptions: { maxParamLength: 16_384 },
  ajv: {
    customOptions: { removeAdditional: false, coerceTypes: false, useDefaults: true, allErrors: true, strict: false }
  }
})

app.removeAllContentTypeParsers()
app.addContentTypeParser<Buffer>("application/json", { parseAs: "buffer" }, async (_: unknown, body: Buffer) =>
  parse(body)
)
app.decorateRequest("credential", null)
app.addHook("onRequest", async (request, reply) => {
  reply.header("x-request-id", request.id)
})
app.addHook("onResponse", async (request, reply) => {
  if (reply.statusCode < 400) return
  process.stderr.write(`${request.method} ${request.url} ${reply.statusCode} ${Math.round(reply.elapsedTime)} ms\n`)
})
app.setNotFoundHandler((_, reply) =>
  send(reply, new Problem(404, "route_not_found", "There is nothing at this path.", "Paths are case-sensitive."))
)
app.setErrorHandler<FastifyError | Problem>((error, _, reply) => send(reply, problemOf(error)))
clients(app, pool, secret)

process.stdout.write(`listening on ${await app.listen({ host: "127.0.0.1", port: Number(PORT) })}\n`)
