/** Token buckets in one Redis, shared by all processes of the service. Without a connection, taking a token fails at once. */
import { type Duration, Effect, Redacted } from "effect"
import { setTimeout } from "node:timers/promises"
import { createClient, defineScript } from "redis"
import type { RateLimit } from "../../api/Access.ts"

export interface Decision {
  readonly allowed: boolean
  readonly remaining: number
  /** Time until the next token is added, or until there are as many as a refused request needs, in milliseconds. */
  readonly nextAfter: number
}

export interface Cost {
  /** The number of tokens, at most the limit of the bucket. */
  readonly tokens: number
  /** How many of them the request has taken already. If there are not enough, it gets these back. */
  readonly taken: number
}

const options = {
  // While there is no connection, commands fail at once instead of waiting in a queue.
  disableOfflineQueue: true,
  pingInterval: 1_000,
  socket: {
    connectTimeout: 1_000,
    // A connection on which pings get no answer is closed, even if TCP has not detected the loss.
    socketTimeout: 3_000,
    reconnectStrategy: (retries: number) => Math.min(50 * 2 ** retries, 1_000)
  }
}

/**
 * Takes tokens of a bucket if there are enough (`Cost`), and returns a `Decision`. The first key has the number of tokens, the second
 * key the time of the last refill in milliseconds, by the clock of Redis, because the clocks of the service's hosts differ and can be
 * set back. If the clock of Redis was set back, the current time replaces the time of the last refill.
 */
const takeTokens = defineScript({
  NUMBER_OF_KEYS: 2,
  SCRIPT: `
local time = redis.call("TIME")
local now = time[1] * 1000 + time[2] / 1000
local limit = tonumber(ARGV[1])
local per_token = tonumber(ARGV[2])
local cost = tonumber(ARGV[3])
local taken = tonumber(ARGV[4])
local tokens = tonumber(redis.call("GET", KEYS[1])) or limit
local refilled = math.min(tonumber(redis.call("GET", KEYS[2])) or now, now)

local returned = math.floor((now - refilled) / per_token)
tokens = math.min(limit, tokens + returned)
refilled = refilled + returned * per_token
if tokens >= limit then refilled = now end

tokens = math.min(limit, tokens + taken)
local allowed = tokens >= cost
local missing = allowed and 1 or cost - tokens
if allowed then tokens = tokens - cost end
local next_after = math.max(0, refilled + per_token - now)
local ttl = math.max(1, math.ceil((limit - tokens - 1) * per_token + next_after))
redis.call("SET", KEYS[1], tokens, "PX", ttl)
redis.call("SET", KEYS[2], refilled, "PX", ttl)
return { allowed and 1 or 0, tokens, string.format("%.17g", next_after + (missing - 1) * per_token) }
`,
  parseCommand: (parser, key: string, limit: number, perToken: number, { taken, tokens }: Cost) => {
    parser.pushKeys([`ratelimiter:${key}`, `ratelimiter:${key}:refill`])
    parser.push(String(limit), String(perToken), String(tokens), String(taken))
  },
  transformReply: (reply: readonly [allowed: number, left: number, nextAfter: string]) => reply
})

/** Makes the function that takes tokens. The client connects in the background, so that the process can start before Redis. */
export const makeTake = Effect.fnUntraced(function* (url: Redacted.Redacted, timeout: Duration.Duration) {
  const client = createClient({ ...options, url: Redacted.value(url), scripts: { takeTokens } })
  const log = Effect.runSyncWith(yield* Effect.context<never>())
  client.on("error", (cause: unknown) => log(Effect.logWarning("The connection to Redis failed", cause)))
  // A client that is closed before it was connected rejects.
  client.connect().catch(() => {})
  // Closing waits for outstanding answers, and a Redis that hangs or is gone sends none.
  yield* Effect.addFinalizer(() =>
    Effect.promise(() => Promise.race([client.close(), setTimeout(500, undefined, { ref: false })])).pipe(
      Effect.ignoreCause,
      Effect.andThen(Effect.ignoreCause(Effect.sync(() => client.destroy())))
    )
  )

  return ({ key, limit, windowSeconds }: RateLimit & { readonly key: string }, cost: Cost) =>
    Effect.tryPromise(() => client.takeTokens(key, limit, (windowSeconds * 1_000) / limit, cost)).pipe(
      Effect.timeout(timeout),
      Effect.map(([allowed, remaining, nextAfter]): Decision => ({
        allowed: allowed === 1,
        remaining,
        nextAfter: Number(nextAfter)
      }))
    )
})
