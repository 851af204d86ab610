/** Token buckets in the memory of this process. */
import type { RateLimit } from "../../api/Authentication.ts"

export interface Decision {
  readonly allowed: boolean
  readonly remaining: number
  /** Time until the next token is added, or until there are as many as a refused request needs, in milliseconds. */
  readonly nextAfter: number
}

/** What a request takes. */
export interface Cost {
  /** The number of tokens, at most the limit of the bucket. */
  readonly tokens: number
  /** How many of them the request has taken already. If there are not enough, it gets these back. */
  readonly taken: number
}

export const one: Cost = { tokens: 1, taken: 0 }

interface Bucket {
  tokens: number
  /** Monotonic time at which the last token was added, in milliseconds. */
  refilledAt: number
  /** Time in which one token is added, in milliseconds. */
  readonly perToken: number
  readonly limit: number
}

/** Number of buckets below which full buckets are kept. A full bucket can be dropped, because it is the same as a new bucket. */
const minSweep = 10_000

export class TokenBuckets {
  private readonly buckets = new Map<string, Bucket>()
  private sweepAbove = minSweep

  /** `now` is the monotonic time in milliseconds. */
  take(key: string, { limit, windowSeconds }: RateLimit, now: number, { taken, tokens }: Cost = one): Decision {
    const bucket = this.buckets.get(key) ?? this.add(key, limit, windowSeconds, now)
    refill(bucket, now)
    const available = Math.min(limit, bucket.tokens + taken)
    const allowed = available >= tokens
    bucket.tokens = allowed ? available - tokens : available
    const missing = allowed ? 1 : tokens - available
    const elapsed = Math.max(0, now - bucket.refilledAt)
    return { allowed, remaining: bucket.tokens, nextAfter: Math.max(0, missing * bucket.perToken - elapsed) }
  }

  private add(key: string, limit: number, windowSeconds: number, now: number): Bucket {
    if (this.buckets.size >= this.sweepAbove) this.sweep(now)
    const bucket = { tokens: limit, refilledAt: now, perToken: (windowSeconds * 1_000) / limit, limit }
    this.buckets.set(key, bucket)
    return bucket
  }

  /** Drops full buckets. The number of buckets has to double before the next sweep, so the cost per bucket stays small. */
  private sweep(now: number) {
    for (const [key, bucket] of this.buckets) {
      refill(bucket, now)
      if (bucket.tokens >= bucket.limit) this.buckets.delete(key)
    }
    this.sweepAbove = Math.max(minSweep, 2 * this.buckets.size)
  }
}

const refill = (bucket: Bucket, now: number) => {
  const returned = Math.floor((now - bucket.refilledAt) / bucket.perToken)
  if (returned > 0) {
    bucket.tokens = Math.min(bucket.limit, bucket.tokens + returned)
    bucket.refilledAt += returned * bucket.perToken
  }
  if (bucket.tokens >= bucket.limit) bucket.refilledAt = now
}
