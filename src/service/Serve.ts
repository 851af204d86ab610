/** The lifecycle of the process: settings, layers, ready line, drain, exit. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Console, Effect, Layer, Option, Queue } from "effect"
import { HttpServer } from "effect/http"
import { DeliveryLoop } from "../webhooks/delivery/DeliveryLoop.ts"
import * as DeliveryMetrics from "../webhooks/delivery/DeliveryMetrics.ts"
import { Calls, metrics as messageMetrics } from "../messaging/Calls.ts"
import * as Replays from "../webhooks/Replays.ts"
import { Sender } from "../webhooks/address/Sender.ts"
import * as Runner from "../campaigns/Runner.ts"
import { slotMetrics } from "../cells/Replication.ts"
import { MessageLoop } from "../messaging/MessageLoop.ts"
import { Supervisor } from "../work/Supervisor.ts"
import { DeliveryPace } from "../work/DeliveryPace.ts"
import { Worker } from "../work/Worker.ts"
import { LongRunning, Mutations } from "../commands/Mutations.ts"
import * as EndingKeys from "../http/auth/EndingKeys.ts"
import { Credentials } from "../http/auth/Credentials.ts"
import { PublicUrl } from "../http/path/Handlers.ts"
import { sqlClients, DatabaseUrl } from "../sql/Connections.ts"
import { Notifier } from "../outbox/Outbox.ts"
import { assertMigrated, migrate } from "../sql/migrations/Migrations.ts"
import { Pages } from "../http/pages/Pages.ts"
import { RateLimits } from "../http/limits/RateLimits.ts"
import { RefusedRequests } from "../http/auth/RefusedRequests.ts"
import { version } from "./Metrics.ts"
import { SecretBox, SecretKey } from "../secrets/SecretBox.ts"
import { Settings, shown } from "../platform/Settings.ts"
import { logging } from "../telemetry/Logging.ts"
import * as Telemetry from "../telemetry/Telemetry.ts"
import * as Ports from "./Ports.ts"
import { Drain, Unread } from "../http/edge/InFlight.ts"
import * as NodeServer from "../http/edge/NodeServer.ts"
import { pruners, secretsChecked } from "./StoredData.ts"
import { welcome } from "./Welcome.ts"
import { flushCompileCache } from "node:module"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"

/** `api` serves the API, `worker` runs background fibers, `all` does both. Every role serves the health checks. */
export type Role = "all" | "api" | "worker"

const migrated = Layer.effectDiscard(
  Effect.gen(function* () {
    const { migrateOnStart } = yield* Settings
    yield* migrateOnStart ? Effect.asVoid(migrate) : assertMigrated
  })
).pipe(Layer.provide(sqlClients.operator))

/** Makes two pools once for the whole process. A service that builds one of their layers (`Layer.build`) gets the pool made here. */
const sharedPools = Layer.provide(Layer.empty, [sqlClients.mutations, sqlClients.reports])

/** Services that the other services of the process share. */
const platform = Layer.mergeAll(
  Credentials.layer,
  RateLimits.layer,
  RefusedRequests.layer,
  Pages.layer,
  Layer.provideMerge(secretsChecked, SecretBox.layer),
  Notifier.layer,
  Drain.layer,
  Unread.layer,
  LongRunning.layer,
  Mutations.layer,
  messageMetrics
).pipe(
  Layer.provideMerge(SecretKey.layer),
  Layer.provideMerge(migrated),
  Layer.provideMerge(sharedPools),
  Layer.provideMerge(sqlClients.reads),
  Layer.provideMerge(Supervisor.layer),
  Layer.provideMerge(DatabaseUrl.layer("service")),
  Layer.provideMerge(Telemetry.layer),
  Layer.provideMerge(logging),
  Layer.provideMerge(Settings.layer),
  Layer.provide(NodeServices.layer)
)

const background = (role: "all" | "worker") =>
  Layer.mergeAll(pruners, slotMetrics, Layer.provideMerge(Runner.layer, MessageLoop.layer)).pipe(
    Layer.merge(Layer.provide(DeliveryLoop.layer, Sender.layerOfSettings)),
    Layer.merge(Layer.mergeAll(Replays.layer, DeliveryMetrics.layer, EndingKeys.layer)),
    Layer.provide(Worker.layer(role)),
    Layer.provide(sqlClients.workers)
  )

const httpServer = (role: Role) =>
  Layer.unwrap(
    Effect.gen(function* () {
      const { adminPort, databaseUrl, host, mcp, metricsPort, port, publicUrl } = yield* Settings
      const main = Layer.unwrap(
        Effect.map(HttpServer.HttpServer, ({ address }) =>
          role === "worker"
            ? Ports.worker
            : Ports.main(
                Option.getOrElse(publicUrl, () => HttpServer.formatAddress(address)),
                mcp
              )
        )
      ).pipe(Layer.provide(Layer.succeed(PublicUrl, Option.getOrUndefined(publicUrl))))
      const isEmbedded = Option.isNone(databaseUrl) && role !== "worker"
      const servers = Option.isSome(adminPort) || isEmbedded ? Layer.merge(main, Ports.AdminServer.layer) : main
      const metrics = Option.match(metricsPort, {
        onSome: (port) => Layer.provide(Ports.metrics, Layer.fresh(NodeServer.layer(host, port))),
        onNone: () => Layer.empty
      })
      return Layer.provideMerge(Layer.merge(servers, metrics), NodeServer.layer(host, port))
    })
  )

export const application = (role: Role) =>
  (role === "api" ? httpServer(role) : Layer.merge(httpServer(role), background(role))).pipe(
    Layer.provideMerge(Calls.layer),
    Layer.provideMerge(platform),
    Layer.provideMerge(role === "all" ? DeliveryPace.layer : Layer.empty)
  )

/**
 * Runs the service until a signal ends it. After SIGTERM, work in flight has `SHUTDOWN_GRACE` to finish. SIGINT, or a second
 * signal, ends the service at once. In each case telemetry is flushed, and other processes can take over unfinished work.
 */
export const serve = ({ role }: { readonly role: Role }) =>
  Effect.gen(function* () {
    yield* boundGrowth
    const queue = yield* signals
    // All modules are loaded. Node would keep the contents of its cache of compiled modules, 9 MB, until the end of the process.
    yield* Effect.sync(flushCompileCache)
    // A start can take long, for example because of migrations, so a signal also ends the start.
    const ended = Effect.as(Queue.take(queue), Option.none())
    const context = yield* Effect.raceFirst(Effect.asSome(Layer.build(application(role))), ended)
    if (Option.isSome(context)) yield* run(role, queue).pipe(Effect.provideContext(context.value))
  }).pipe(Effect.scoped)

/**
 * Queues SIGTERM and SIGINT in the order of their arrival while the scope is open. During this time, the signals do not end the
 * process.
 */
const signals = Effect.gen(function* () {
  const queue = yield* Queue.unbounded<"SIGTERM" | "SIGINT">()
  const onTerm = () => Queue.offerUnsafe(queue, "SIGTERM")
  const onInt = () => Queue.offerUnsafe(queue, "SIGINT")
  yield* Effect.acquireRelease(
    Effect.sync(() => process.on("SIGTERM", onTerm).on("SIGINT", onInt)),
    () => Effect.sync(() => process.off("SIGTERM", onTerm).off("SIGINT", onInt))
  )
  return queue
})

const run = Effect.fnUntraced(function* (role: Role, queue: Queue.Dequeue<"SIGTERM" | "SIGINT">) {
  const { databaseUrl, shutdownGrace } = yield* Settings
  const url = HttpServer.formatAddress((yield* HttpServer.HttpServer).address)
  const admin = yield* Effect.serviceOption(Ports.AdminServer)
  if (role !== "worker" && Option.isNone(databaseUrl) && Option.isSome(admin)) {
    const urls = { service: url, admin: admin.value.url }
    for (const line of yield* welcome(urls)) yield* Console.log(line)
  }
  yield* Effect.annotateLogs(Effect.logInfo("The service has started"), {
    version,
    role,
    node: process.versions.node,
    settings: shown(yield* Settings)
  })
  yield* Console.log(`listening on ${url}`)
  // Delayed, because `releaseStart` pauses the process, and the first requests often come right after the ready line.
  yield* Effect.forkChild(Effect.delay(releaseStart, "1 second"))

  const { drain } = yield* Drain
  const calls = yield* Calls
  const deliveries = yield* Effect.serviceOption(DeliveryLoop)
  const messages = yield* Effect.serviceOption(MessageLoop)
  const drained = Effect.gen(function* () {
    const loops = [deliveries, messages].flatMap(Option.toArray).map((loop) => loop.drain)
    yield* Effect.all([drain, ...loops], { concurrency: "unbounded" })
    // Waits for provider calls, which go on after their callers have disconnected.
    yield* calls.drain
  })
  const signal = yield* Effect.tap(Queue.take(queue), (signal) => Effect.logInfo(`The service ends after ${signal}`))
  if (signal === "SIGTERM")
    yield* drained.pipe(Effect.timeoutOption(shutdownGrace), Effect.raceFirst(Queue.take(queue)))
  yield* (yield* Supervisor).end
})

/**
 * Changes rules of V8 for the memory of this process, measured with `npm run bench -- memory` and `-- requests`, each rule by itself
 * (2026-11-28 and 29). The process holds 121 MiB when idle, and up to 24 more where the start compiles all modules. Under load it holds
 * 198 to 220 MiB.
 *
 * - A half of the young generation has at most 16 MiB, not 32. V8 takes this limit only as a flag of Node (`--max-semi-space-size`), which
 *   `npm start`, the image and the unit of systemd give. It saves 30 to 38 MiB under load, and costs 3 to 8 % of the CPU of a get, list
 *   and replay, in turns; creates, patches and the slowest hundredth are the same.
 * - The old generation is collected when it has grown to 1.4 times its size after the previous collection. By default, V8 lets
 *   it grow to a multiple of the memory in use. With 1.5 times, the process holds up to 231 MiB under load. With 1.3 times, the heap is
 *   collected twice as often as with 1.5, and a delivery takes a tenth more of this process's CPU.
 * - Pretenuring is off: no object is allocated directly in the old generation. With pretenuring, V8 predicts from a sample which
 *   objects live long, and includes objects of requests: 4,100 bytes are then promoted for a request instead of 230, three runs in turns
 *   (`test/faults/Memory.test.ts`), and a get takes 1.5 of the CPU.
 */
const boundGrowth: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--heap-growing-percent=40")
  setFlagsFromString("--no-allocation-site-pretenuring")
})

/**
 * Releases the memory that only the start of the process needed: without this, the idle process holds 225 MiB. V8 releases it only
 * in a collection of the flavor `last-resort`, which pauses the process once for about 100 ms.
 */
const releaseStart: Effect.Effect<void> = Effect.sync(() => {
  setFlagsFromString("--expose-gc")
  const collect: unknown = runInNewContext("gc")
  if (typeof collect === "function") collect({ type: "major", execution: "sync", flavor: "last-resort" })
})
