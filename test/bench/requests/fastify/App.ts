/** The server around the routes: request ids, JSON bodies, and problems for all failures. */
import Fastify, { type FastifyError } from "fastify"
import { randomUUID } from "node:crypto"
import { isUnsafe } from "./Guard.ts"
import { invalid, Problem, send, unavailable } from "./Problem.ts"

const wellFormedId = /^[A-Za-z0-9._-]{1,128}$/
const requestIdOf = (header: string | ReadonlyArray<string> | undefined): string =>
  typeof header === "string" && wellFormedId.test(header) ? header : randomUUID()

const malformed = () =>
  new Problem(400, "malformed_json", "The request body is not well-formed JSON.", "The body is not JSON.")

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
    return invalid(
      Object.fromEntries(
        error.validation
          // "if" only reports that a condition was not met; another error reports the cause.
          .filter(({ keyword }) => keyword !== "if")
          .map(({ instancePath, message = "is not valid", params }) => {
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

export const makeApp = () => {
  const app = Fastify({
    bodyLimit: 256 * 1024,
    keepAliveTimeout: 75_000,
    genReqId: ({ headers }) => requestIdOf(headers["x-request-id"]),
    routerOptions: { maxParamLength: 16_384 },
    ajv: {
      customOptions: { removeAdditional: false, coerceTypes: false, useDefaults: true, allErrors: true, strict: false }
    }
  })

  app.removeAllContentTypeParsers()
  app.addContentTypeParser<Buffer>("application/json", { parseAs: "buffer" }, (_, body, done) => {
    try {
      done(null, parse(body))
    } catch (error) {
      done(error instanceof Error ? error : malformed())
    }
  })

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
  return app
}
