/** RFC 9457 problems (contract §2). */
import type { FastifyReply } from "fastify"

type Texts = Readonly<Record<string, string>>
/** Messages by location, of an invalid request. */
type Errors = Readonly<Record<string, ReadonlyArray<string>>>

export class Problem extends Error {
  readonly parts: readonly [status: number, code: string, title: string, headers: Texts, errors: Errors | undefined]

  constructor(status: number, code: string, title: string, detail: string, headers: Texts = {}, errors?: Errors) {
    super(detail)
    this.parts = [status, code, title, headers, errors]
  }
}

const tokens = /\b(dk|whsec)_[A-Za-z0-9+/=_-]+/g

export const send = (
  reply: FastifyReply,
  { message: detail, parts: [status, code, title, headers, errors] }: Problem
) =>
  reply
    .code(status)
    .headers({ ...headers })
    .header("content-type", "application/problem+json")
    .serializer((body: object) => JSON.stringify(body).replaceAll(tokens, "[redacted]"))
    .send({
      type: `urn:developer-api:problem:${code}`,
      title,
      status,
      detail,
      instance: `urn:developer-api:request:${reply.request.id}`,
      code,
      errors
    })

export const invalid = (errors: Errors) =>
  new Problem(400, "validation_failed", "The request does not have the required form.", "See errors.", {}, errors)
