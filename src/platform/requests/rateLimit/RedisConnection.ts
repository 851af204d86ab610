/** The connection to Redis: one server, or a cluster where the server at `REDIS_URL` is a node of one. */
import * as NodeRedis from "@effect/platform-node/NodeRedis"
import { Context, Duration, Effect, Exit, Layer, Redacted, Schedule, Scope } from "effect"
import { Redis } from "effect/persistence"
import { createCluster, ErrorReply, type RedisClientOptions } from "redis"

const options = {
  // Commands never queue while disconnected: they fail at once.
  disableOfflineQueue: true,
  pingInterval: 1_000,
  socket: {
    connectTimeout: 1_000,
    // A connection without answers to its pings is dead, even if TCP has not noticed.
    socketTimeout: 3_000,
    reconnectStrategy: (retries: number) => Math.min(50 * 2 ** retries, 1_000)
  }
}

const everySecond = Schedule.spaced(Duration.seconds(1))

/** Connects, and retries without a limit. */
export const layer = (redacted: Redacted.Redacted) => {
  const url = Redacted.value(redacted)
  return Layer.effect(
    Redis.Redis,
    Effect.gen(function* () {
      const scope = yield* Effect.scope
      const alone = yield* Scope.fork(scope)
      const redis = Context.get(yield* Layer.buildWithScope(NodeRedis.layer({ url, ...options }), alone), Redis.Redis)
      const info = yield* redis.send<string>("INFO", "cluster").pipe(
        // Without the permission for this command, a single server is assumed.
        Effect.catchIf(
          ({ cause }) => cause instanceof ErrorReply,
          () => Effect.succeed("")
        ),
        Effect.retry(everySecond)
      )
      if (!/^cluster_enabled:1\r?$/m.test(info)) return redis
      yield* Scope.close(alone, Exit.void)
      return yield* Effect.retry(connectCluster(url), everySecond)
    })
  )
}

/** Makes a client that sends each command to the node of its keys, also after they have moved. */
const connectCluster = Effect.fnUntraced(function* (url: string) {
  const cluster = yield* Effect.acquireRelease(
    Effect.sync(() => createCluster({ rootNodes: [{ ...options, url }], defaults: { ...options, ...accessOf(url) } })),
    (cluster) => Effect.ignoreCause(Effect.promise(() => cluster.close()))
  )
  const log = Effect.runSyncWith(yield* Effect.context<never>())
  cluster.on("error", (cause: unknown) => log(Effect.logWarning("A node of the Redis cluster failed", cause)))
  const attempt = <A>(call: () => Promise<A>) =>
    Effect.tryPromise({ try: call, catch: (cause) => new Redis.RedisError({ cause }) })
  yield* attempt(() => cluster.connect())

  /** Loads a script on every node, as its keys may be on any of them. */
  const load = async <A>(args: Array<string>): Promise<A> => {
    const nodes = await Promise.all(cluster.masters.map((node) => cluster.nodeClient(node)))
    const loaded = await Promise.allSettled(nodes.map((node) => node.sendCommand<A>(args)))
    const one = loaded.find((result) => result.status === "fulfilled") ?? loaded[0]
    if (one?.status !== "fulfilled") throw one?.reason ?? new Error("The cluster has no nodes")
    return one.value
  }
  const unused = Effect.fail(new Redis.RedisError({ cause: "Only commands are sent to a cluster" }))
  return yield* Redis.make({
    send: <A>(command: string, ...args: ReadonlyArray<string>) => {
      const all = [command, ...args]
      // `EVALSHA sha numkeys key …`: the keys of a script are in one slot, so the first determines the node.
      return attempt(() => (command === "SCRIPT" ? load<A>(all) : cluster.sendCommand<A>(args[2], false, all)))
    },
    connect: unused,
    subscribe: () => unused
  })
})

/** Returns the credentials and TLS of a URL, for the nodes that are discovered later. */
const accessOf = (url: string): RedisClientOptions => {
  const { password, protocol, username } = new URL(url)
  return {
    ...(username === "" ? {} : { username: decodeURIComponent(username) }),
    ...(password === "" ? {} : { password: decodeURIComponent(password) }),
    socket: protocol === "rediss:" ? { ...options.socket, tls: true } : options.socket
  }
}
