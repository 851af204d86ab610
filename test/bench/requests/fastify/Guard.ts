/** The checks before every route: credential, permissions, rate limit (contract §4), and rules that no schema expresses. */
import type { FastifyReply, FastifyRequest } from "fastify"
import type { Pool } from "pg"
import { authorize, type Credential, makeVerify, type Policy } from "./Credentials.ts"
import { invalid, Problem } from "./Problem.ts"

declare module "fastify" {
  interface FastifyRequest {
    credential: Credential | null
  }
}

/** Creates a function that takes one token of the project's policy and sets the rate-limit headers of the answer. */
const makeTake = () => {
  const buckets = new Map<string, { tokens: number; at: number }>()

  return ({ projectId, rateLimits }: Credential, policy: Policy, reply: FastifyReply): void => {
    const { limit, windowSeconds } = rateLimits[policy]
    const perMilli = limit / (windowSeconds * 1000)
    const now = performance.now()
    const key = `${policy}:${projectId}`
    let bucket = buckets.get(key)
    if (bucket === undefined) {
      bucket = { tokens: limit, at: now }
      buckets.set(key, bucket)
    }
    bucket.tokens = Math.min(limit, bucket.tokens + (now - bucket.at) * perMilli)
    bucket.at = now
    const allowed = bucket.tokens >= 1
    if (allowed) bucket.tokens -= 1
    const left = Math.floor(bucket.tokens)
    const next = Math.ceil((1 - (bucket.tokens - left)) / perMilli / 1000)
    const window = left > 0 ? Math.ceil((left * windowSeconds) / limit) : next
    reply.header("ratelimit-policy", `"${policy}";q=${limit};w=${windowSeconds}`)
    reply.header("ratelimit", `"${policy}";r=${left};t=${window}`)
    if (allowed) return
    const headers = { "retry-after": String(Math.max(1, next)) }
    throw new Problem(429, "rate_limit_exceeded", "The project has sent too many requests.", "Wait a little.", headers)
  }
}

/** The `onRequest` hooks of routes, by the scope and the rate limit of each. */
export type Guard = ReturnType<typeof makeGuard>

export const makeGuard = (pool: Pool) => {
  const verify = makeVerify(pool)
  const take = makeTake()
  return (scope: string, policy: Policy) => async (request: FastifyRequest, reply: FastifyReply) => {
    const credential = await verify(request.headers.authorization)
    authorize(credential, scope)
    take(credential, policy, reply)
    request.credential = credential
    if (request.method === "GET" && Number(request.headers["content-length"] ?? 0) > 0) {
      throw invalid({ body: ["must be absent: this operation takes no body"] })
    }
  }
}

export const projectOf = ({ credential }: FastifyRequest): string => {
  if (credential === null) throw new Error("A route has no guard")
  return credential.projectId
}

// oxlint-disable-next-line no-control-regex -- U+0000 is what is looked for
const unsafe = /\u0000|[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/
export const isUnsafe = (value: unknown): boolean =>
  typeof value === "string"
    ? unsafe.test(value)
    : typeof value === "object" && value !== null && Object.entries(value).some((pair) => pair.some(isUnsafe))

/** Rejects, as a `preValidation` hook, characters that no string of this API may contain. */
export const checkTarget = async ({ params, query, url }: FastifyRequest) => {
  if (url.includes("%") && (isUnsafe(params) || isUnsafe(query))) throw invalid({ path: ["must not contain U+0000"] })
}
