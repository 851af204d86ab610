/** The connection to Redis: to the server at `REDIS_URL`, or to the whole cluster if that server is a node of a cluster. */
import { Effect, Redacted } from "effect"
import { setTimeout } from "node:timers/promises"
import { createClient, createCluster, defineScript, ErrorReply, type RedisClientOptions } from "redis"

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
 * Takes one token of a bucket if there is one. The first key has the number of tokens, the second key the time of the last
 * refill in milliseconds. The time is from the clock of Redis, because the clocks of the service's hosts differ and can be set
 * back. If the clock of Redis was set back, the current time replaces the time of the last refill. Returns whether a token was
 * taken, the number of tokens left, and the milliseconds until the next token.
 */
const takeToken = defineScript({
  NUMBER_OF_KEYS: 2,
  SCRIPT: `
local time = redis.call("TIME")
local now = time[1] * 1000 + time[2] / 1000
local limit = tonumber(ARGV[1])
local per_token = tonumber(ARGV[2])
local tokens = tonumber(redis.call("GET", KEYS[1])) or limit
local refilled = math.min(tonumber(redis.call("GET", KEYS[2])) or now, now)

local returned = math.floor((now - refilled) / per_token)
tokens = math.min(limit, tokens + returned)
refilled = refilled + returned * per_token
if tokens >= limit then refilled = now end

local taken = tokens >= 1 and 1 or 0
tokens = tokens - taken
local next_after = math.max(0, refilled + per_token - now)
local ttl = math.max(1, math.ceil((limit - tokens - 1) * per_token + next_after))
redis.call("SET", KEYS[1], tokens, "PX", ttl)
redis.call("SET", KEYS[2], refilled, "PX", ttl)
return { taken, tokens, string.format("%.17g", next_after) }
`,
  parseCommand: (parser, key: string, limit: number, perToken: number) => {
    parser.pushKeys([`ratelimiter:${key}`, `ratelimiter:${key}:refill`])
    parser.push(String(limit), String(perToken))
  },
  transformReply: (reply: readonly [taken: number, left: number, nextAfter: string]) => reply
})
const scripts = { takeToken }

/** Makes a client of a cluster. It sends each command to the node that has the command's keys, also after the keys have moved. */
const clusterAt = (url: string) =>
  createCluster({ rootNodes: [{ ...options, url }], defaults: { ...options, ...accessOf(url) }, scripts })

const serverAt = (url: string) => createClient({ ...options, url, scripts })

/**
 * Maximum time in milliseconds for closing a client. Closing waits for outstanding answers, and a Redis that hangs or is gone
 * sends none.
 */
const closeTimeout = 500

/**
 * Connects a client until the scope ends. A client of a single server retries without a limit. A client of a cluster fails if no
 * node can be reached.
 */
const opened = Effect.fnUntraced(function* <Client extends ReturnType<typeof serverAt | typeof clusterAt>>(
  client: Client
) {
  const log = Effect.runSyncWith(yield* Effect.context<never>())
  client.on("error", (cause: unknown) => log(Effect.logWarning("The connection to Redis failed", cause)))
  yield* Effect.addFinalizer(() =>
    Effect.promise(() => Promise.race([client.close(), setTimeout(closeTimeout, undefined, { ref: false })])).pipe(
      Effect.ignoreCause,
      Effect.andThen(Effect.ignoreCause(Effect.sync(() => client.destroy())))
    )
  )
  yield* Effect.promise(async () => void (await client.connect()))
  return client
})

/**
 * Whether a server is a node of a cluster. If the Redis user may not ask this by INFO, the server is used as a single server.
 */
const isInCluster = (url: string) =>
  Effect.flatMap(opened(serverAt(url)), (server) =>
    Effect.promise(() =>
      server.sendCommand<string>(["INFO", "cluster"]).catch((error: unknown) => {
        if (error instanceof ErrorReply) return ""
        throw error
      })
    )
  ).pipe(
    Effect.scoped,
    Effect.map((info) => /^cluster_enabled:1\r?$/m.test(info))
  )

/** Connects until the scope ends, and returns the function that takes a token. A failure to connect is a defect. */
export const connect = Effect.fnUntraced(function* (redacted: Redacted.Redacted) {
  const url = Redacted.value(redacted)
  const client = yield* opened((yield* isInCluster(url)) ? clusterAt(url) : serverAt(url))
  return (key: string, limit: number, perToken: number) => client.takeToken(key, limit, perToken)
})

/** Returns the client options for the nodes of a cluster: the credentials and TLS of `REDIS_URL`. */
const accessOf = (url: string): RedisClientOptions => {
  const { password, protocol, username } = new URL(url)
  return {
    ...(username === "" ? {} : { username: decodeURIComponent(username) }),
    ...(password === "" ? {} : { password: decodeURIComponent(password) }),
    socket: protocol === "rediss:" ? { ...options.socket, tls: true } : options.socket
  }
}
