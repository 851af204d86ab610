/** The connection to Redis: to the server at `REDIS_URL`, or to the whole cluster if that server is a node of a cluster. */
import * as NodeRedis from "@effect/platform-node/NodeRedis"
import { Context, Duration, Effect, Exit, Layer, Redacted, Schedule, Scope } from "effect"
import { Redis } from "effect/persistence"
import { createCluster, ErrorReply, type RedisClientOptions } from "redis"

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

const everySecond = Schedule.spaced(Duration.seconds(1))

/** Provides the connection. Retries without a limit until it is established. */
export const layer = (redacted: Redacted.Redacted) => {
  const url = Redacted.value(redacted)
  return Layer.effect(
    Redis.Redis,
    Effect.gen(function* () {
      const scope = yield* Effect.scope
      const alone = yield* Scope.fork(scope)
      const redis = Context.get(yield* Layer.buildWithScope(NodeRedis.layer({ url, ...options }), alone), Redis.Redis)
      const info = yield* redis.send<string>("INFO", "cluster").pipe(
        // If the user may not run this command, the server is used as a single server.
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

/** Makes a client of a cluster. It sends each command to the node that has the command's keys, also after the keys have moved. */
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

  /** Loads a script on every node, because the keys of a later call may be on any node. */
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
      // The other commands are `EVALSHA sha numkeys key …`. All keys of a call are in one slot, so the first key determines
      // the node.
      return attempt(() => (command === "SCRIPT" ? load<A>(all) : cluster.sendCommand<A>(args[2], false, all)))
    },
    connect: unused,
    subscribe: () => unused
  })
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
