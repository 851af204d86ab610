/**
 * The yardstick: clients get, list and create, written by hand on Fastify and pg as a good engineer would, with the same
 * work per request as the service: token, scopes, rate limit, request id, validation, statements, ETag, replay, problems.
 *
 * Where the two differ: this one tells the faults of one slot of a request at a time (the service gathers all, on its
 * error path only), serialises answers without checking them (as Fastify does), and sends one statement at a time on
 * each of its 20 connections (as pg does) where the service pipelines on as many and watches their sockets.
 */
import Fastify, { type FastifyError, type FastifyReply, type FastifyRequest } from "fastify"
import { randomUUID } from "node:crypto"
import pg from "pg"
import { makeTake } from "./fastify/Buckets.ts"
import { type ClientCreate, create } from "./fastify/Commands.ts"
import { authorize, type Credential, makeVerify, type Policy } from "./fastify/Credentials.ts"
import { makeCursors, type Place } from "./fastify/Cursor.ts"
import { invalid, Problem, send, unavailable } from "./fastify/Problem.ts"
import * as Schemas from "./fastify/Schemas.ts"
import { findClient, listClients } from "./fastify/Sql.ts"

declare module "fastify" {
  interface FastifyRequest {
    credential: Credential | null
  }
}

interface Client {
  readonly id: string
  readonly version: number
  readonly createdAt: Date
}

const { DATABASE_URL: connectionString = "", PORT = "0", SECRET_KEY: secret = "" } = process.env

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

const verify = makeVerify(pool)
const take = makeTake()
const cursors = makeCursors(secret)

const wellFormedId = /^[A-Za-z0-9._-]{1,128}$/
const requestIdOf = (header: string | ReadonlyArray<string> | undefined): string =>
  typeof header === "string" && wellFormedId.test(header) ? header : randomUUID()

// oxlint-disable-next-line no-control-regex -- U+0000 is what is looked for
const unsafe = /\u0000|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/
const isUnsafe = (value: unknown): boolean =>
  typeof value === "string"
    ? unsafe.test(value)
    : typeof value === "object" && value !== null && Object.entries(value).some((pair) => pair.some(isUnsafe))

const app = Fastify({
  bodyLimit: 256 * 1024,
  keepAliveTimeout: 75_000,
  genReqId: ({ headers }) => requestIdOf(headers["x-request-id"]),
  routerOptions: { maxParamLength: 16_384 },
  ajv: {
    customOptions: { removeAdditional: false, coerceTypes: false, useDefaults: true, allErrors: true, strict: false }
  }
})

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

app.removeAllContentTypeParsers()
app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_, body, done) => {
  try {
    const text = typeof body === "string" ? body : utf8.decode(body)
    const value: unknown = JSON.parse(text)
    // Escapes are the one way for such characters to be in a text that is valid UTF-8.
    if (text.includes("\\u") && isUnsafe(value)) throw invalid({ body: ["must not contain U+0000"] })
    done(null, value)
  } catch (error) {
    done(error instanceof Problem ? error : malformed())
  }
})

const malformed = () =>
  new Problem(400, "malformed_json", "The request body is not well-formed JSON.", "The body is not JSON.")

app.decorateRequest("credential", null)
app.addHook("onRequest", async (request, reply) => {
  reply.header("x-request-id", request.id)
})
app.addHook("onResponse", async (request, reply) => {
  if (reply.statusCode < 400) return
  process.stderr.write(`${request.method} ${request.url} ${reply.statusCode} ${Math.round(reply.elapsedTime)} ms\n`)
})

/** Who calls, whether they may, and whether they may now. */
const guard = (scope: string, policy: Policy) => async (request: FastifyRequest, reply: FastifyReply) => {
  const credential = await verify(request.headers.authorization)
  authorize(credential, scope)
  take(credential, policy, reply)
  request.credential = credential
  if (request.method === "GET" && Number(request.headers["content-length"] ?? 0) > 0) {
    throw invalid({ body: ["must be absent: this operation takes no body"] })
  }
}

/** What no schema says: characters that no string of this API holds. */
const checkTarget = async ({ params, query, url }: FastifyRequest) => {
  if (url.includes("%") && (isUnsafe(params) || isUnsafe(query))) throw invalid({ path: ["must not contain U+0000"] })
}

const projectOf = ({ credential }: FastifyRequest): string => {
  if (credential === null) throw new Error("A route has no guard")
  return credential.projectId
}

const path = "/api/v1/developer/crm/clients"

app.get<{ Params: { clientId: string } }>(
  `${path}/:clientId`,
  {
    onRequest: guard("crm.clients.read", "read"),
    preValidation: checkTarget,
    schema: { params: Schemas.clientParams, querystring: Schemas.noQuery, response: { 200: Schemas.client } }
  },
  async (request, reply) => {
    const values = [projectOf(request), request.params.clientId]
    const { rows } = await pool.query<Client>({ name: "findClient", text: findClient, values })
    if (rows[0] === undefined) throw new Problem(404, "client_not_found", "The project has no such client.", "")
    reply.header("etag", `"${rows[0].version}"`)
    return rows[0]
  }
)

app.get<{ Querystring: { status: "active" | "archived" | "all"; limit: string; cursor?: string } }>(
  path,
  {
    onRequest: guard("crm.clients.read", "read"),
    preValidation: checkTarget,
    schema: { querystring: Schemas.listQuery, response: { 200: Schemas.page } }
  },
  async (request, reply) => {
    const { cursor, status } = request.query
    const limit = Number(request.query.limit)
    const projectId = projectOf(request)
    const list = [projectId, "listClients", { status }]
    const after = cursor === undefined ? undefined : cursors.decode(list, cursor)
    const { rows } = await pool.query<Client>(listQuery(projectId, status, after, limit + 1))
    const items = rows.length > limit ? rows.slice(0, limit) : rows
    const last = rows.length > limit ? items.at(-1) : undefined
    const nextCursor = last === undefined ? null : cursors.encode(list, last)
    if (nextCursor !== null) {
      const next = new URL(request.url, "http://localhost")
      next.searchParams.set("cursor", nextCursor)
      reply.header("link", `<${next.origin}${next.pathname}${next.search}>; rel="next"`)
    }
    return { items, nextCursor }
  }
)

const listQuery = (projectId: string, status: string, after: Place | undefined, count: number) => {
  const filter = status === "all" ? [] : [status]
  const position = after === undefined ? [] : [after.createdAt, after.id]
  const name = `listClients ${filter.length} ${after?.by ?? ""}`
  return {
    name,
    text: listTexts.get(name) ?? listText(name, filter.length > 0, after?.by),
    values: [projectId, ...filter, ...position, count]
  }
}

const listTexts = new Map<string, string>()
const listText = (name: string, ofStatus: boolean, after: Place["by"] | undefined): string => {
  const text = listClients(ofStatus, after)
  listTexts.set(name, text)
  return text
}

app.post<{ Headers: { "idempotency-key": string }; Body: ClientCreate }>(
  path,
  {
    onRequest: guard("crm.clients.write", "write"),
    preValidation: checkTarget,
    schema: {
      headers: Schemas.mutationHeaders,
      querystring: Schemas.noQuery,
      body: Schemas.clientCreate,
      response: { 201: Schemas.receipt }
    }
  },
  async (request, reply) => {
    const receipt = await create(pool, projectOf(request), request.headers["idempotency-key"], request.body)
    reply.code(201).header("etag", `"${receipt.version}"`)
    if (receipt.replayed) reply.header("idempotent-replayed", "true")
    return receipt
  }
)

app.setNotFoundHandler((_, reply) =>
  send(reply, new Problem(404, "route_not_found", "There is nothing at this path.", "Paths are case-sensitive."))
)

const slots: Record<string, string> = { body: "body", headers: "header", querystring: "query", params: "path" }

const problemOf = (error: FastifyError | Problem): Problem => {
  if (error instanceof Problem) return error
  if (error.validation !== undefined) {
    const slot = slots[error.validationContext ?? "body"] ?? "body"
    return invalid(
      Object.fromEntries(
        error.validation.map(({ instancePath, message = "is not valid", params }) => {
          const name = params["missingProperty"] ?? params["additionalProperty"]
          return [`${slot}${instancePath}${typeof name === "string" ? `/${name}` : ""}`, [message]]
        })
      )
    )
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

app.setErrorHandler<FastifyError | Problem>((error, _, reply) => send(reply, problemOf(error)))

for (const signal of ["SIGTERM", "SIGINT"]) {
  process.once(signal, () => {
    void app.close().then(() => pool.end())
  })
}

process.stdout.write(`listening on ${await app.listen({ host: "127.0.0.1", port: Number(PORT) })}\n`)
