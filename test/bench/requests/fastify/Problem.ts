/** RFC 9457 problems (contract §2). */
import type { FastifyReply } from "fastify"

export class Problem extends Error {
  readonly status: number
  readonly code: string
  readonly title: string
  readonly headers: Record<string, string>
  readonly extensions: Record<string, unknown>

  constructor(
    status: number,
    code: string,
    title: string,
    detail: string,
    { extensions = {}, headers = {} }: { extensions?: Record<string, unknown>; headers?: Record<string, string> } = {}
  ) {
    super(detail)
    this.status = status
    this.code = code
    this.title = title
    this.headers = headers
    this.extensions = extensions
  }
}

const tokens = /\b(dk|whsec)_[A-Za-z0-9+/=_-]+/g

export const send = (reply: FastifyReply, { code, extensions, headers, message, status, title }: Problem) =>
  reply
    .code(status)
    .headers(headers)
    .header("content-type", "application/problem+json")
    .serializer((body: object) => JSON.stringify(body).replaceAll(tokens, "[redacted]"))
    .send({
      type: `urn:developer-api:problem:${code}`,
      title,
      status,
      detail: message,
      instance: `urn:developer-api:request:${reply.request.id}`,
      code,
      ...extensions
    })

/** Creates the problem of an invalid request; `errors` has messages by location. */
export const invalid = (errors: Record<string, ReadonlyArray<string>>) =>
  new Problem(400, "validation_failed", "The request does not have the required form.", "See errors.", {
    extensions: { errors }
  })

export const unavailable = () =>
  new Problem(503, "service_unavailable", "The service is not available right now.", "The database does not answer.", {
    headers: { "retry-after": "1" }
  })
