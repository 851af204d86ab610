/** Token buckets in memory (contract §4). */
import type { FastifyReply } from "fastify"
import type { Credential, Policy } from "./Credentials.ts"
import { Problem } from "./Problem.ts"

interface Bucket {
  tokens: number
  at: number
}

/** Creates a function that takes one token of the project's policy and sets the rate-limit headers of the answer. */
export const makeTake = () => {
  const buckets = new Map<string, Bucket>()

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
    throw new Problem(429, "rate_limit_exceeded", "The project has sent too many requests.", "Wait a little.", {
      headers: { "retry-after": String(Math.max(1, next)) }
    })
  }
}
