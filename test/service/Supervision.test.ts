/** A defect in a background fiber of the service during its work: metrics and restart; readiness stays (contract §15). */
import { readdirSync, readFileSync } from "node:fs"
import { assert, it, layer } from "../support/Vitest.ts"
import { ConfigProvider, Context, Deferred, Effect, Layer, Metric, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { Supervisor } from "../../src/work/Supervisor.ts"
import { application } from "../../src/service/Serve.ts"
import { freePort } from "../support/Process.ts"
import { secretKey, startServer } from "../support/TestServer.ts"
import { makeDatabase, TestDatabase } from "../support/TestDatabase.ts"
import { passUntil } from "../support/Waiting.ts"

/** Every background fiber. The test fails if one is missing here. */
const fibers = [
  "attempt minutes retention",
  "audience pruning",
  "campaign messages",
  "campaign progress",
  "counts of refused requests",
  "deliveries",
  "deliveries dead-lettering",
  "deliveries event retention",
  "deliveries expiry",
  "deliveries listener",
  "deliveries metrics",
  "deliveries retention",
  "deliveries sweep",
  "deliveries takeover",
  "erased texts",
  "idempotency pruning",
  "keys that end soon",
  "measurement of readiness",
  "message claims",
  "message metrics",
  "message pruning",
  "message takeover",
  "move slots",
  "outbox notifier",
  "replays",
  "replays retention",
  "worker liveness"
]

/** Returns a supervisor under which the first run of each loop ends in a defect once it has made progress. */
const brokenOnce = (supervisor: Supervisor["Service"], runs: Map<string, number>): Supervisor["Service"] => ({
  ...supervisor,
  supervise: (name, options, loop) => {
    let run = 0
    return supervisor.supervise(name, options, (progress) =>
      Effect.gen(function* () {
        const current = ++run
        const advanced = yield* Deferred.make<void>()
        const reported = Effect.andThen(progress, () => {
          runs.set(name, Math.max(runs.get(name) ?? 0, current))
          return Effect.asVoid(Deferred.succeed(advanced, undefined))
        })
        const bug = current === 1 ? Effect.andThen(Deferred.await(advanced), Effect.die("a bug")) : Effect.never
        yield* Effect.raceFirst(loop(reported), bug)
      })
    )
  }
})

/** Returns a memo map that builds layers as `memoMap` does, with the supervisor replaced by `brokenOnce`. */
const replacing = (memoMap: Layer.MemoMap, runs: Map<string, number>): Layer.MemoMap => {
  const replaced: Layer.MemoMap = {
    "~effect/Layer/MemoMap": "~effect/Layer/MemoMap",
    get: (layer, scope) => memoMap.get(layer, scope),
    getOrElseMemoize: (layer, scope, build) =>
      memoMap.getOrElseMemoize(layer, scope, (_, scope) =>
        Effect.map(build(replaced, scope), (context) => {
          if (!Object.is(layer, Supervisor.layer)) return context
          const supervisor = Context.getOrUndefined(context, Supervisor)
          return supervisor === undefined ? context : Context.add(context, Supervisor, brokenOnce(supervisor, runs))
        })
      )
  }
  return replaced
}

const service = Effect.gen(function* () {
  const port = yield* Effect.promise(freePort)
  const server = yield* startServer({ ADMIN_PORT: String(port) })
  const metrics = Effect.promise(() => fetch(`http://127.0.0.1:${port}/metrics`).then((answer) => answer.text()))
  const ready = Effect.promise(async () => {
    const answer = await fetch(`${server.url}/readyz`)
    return { status: answer.status, text: await answer.text() }
  })
  /** Reads a metric of a fiber. */
  const of = (name: string, fiber: string) =>
    Effect.map(metrics, (text) => Number(new RegExp(`^${name}\\{fiber="${fiber}"\\} (\\S+)`, "m").exec(text)?.[1]))
  return { ...server, metrics, ready, of }
})

layer(TestDatabase.layer)("a background fiber with a defect", (it) => {
  it.effect("is restarted, whichever it is, and makes progress again", () =>
    Effect.gen(function* () {
      const runs = new Map<string, number>()
      const url = Redacted.value(yield* makeDatabase())
      const port = String(yield* Effect.promise(freePort))
      const environment = { PORT: "0", LOG_LEVEL: "none", SECRET_KEY: secretKey, DATABASE_URL: url, ADMIN_PORT: port }
      const memoMap = replacing(yield* Layer.makeMemoMap, runs)
      yield* application("all").pipe(
        Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(environment))),
        (service) => Effect.flatMap(Effect.scope, (scope) => Layer.buildWithMemoMap(service, memoMap, scope))
      )
      yield* TestClock.adjust("1 second").pipe(
        Effect.andThen(TestClock.withLive(Effect.sleep("20 millis"))),
        Effect.repeat({ until: () => runs.size >= fibers.length && [...runs.values()].every((count) => count >= 2) })
      )
      assert.deepStrictEqual([...runs.keys()].sort(), fibers)
    }).pipe(Effect.scoped, Effect.provideService(Metric.MetricRegistry, new Map()))
  )

  it.effect(
    "is restarted and counted, and shown while it makes no progress; requests are still answered",
    function* () {
      const { of, ready, sql } = yield* service
      assert.strictEqual((yield* ready).status, 200)
      assert.strictEqual(yield* of("background_restarts_total", "campaign progress"), 0)
      yield* Effect.orDie(sql`ALTER TABLE campaign_recipients RENAME TO elsewhere`)
      yield* passUntil(of("background_restarts_total", "campaign progress"), (restarts) => restarts >= 2)
      yield* passUntil(of("background_stalled", "campaign progress"), (stalled) => stalled === 1)
      assert.strictEqual((yield* ready).status, 200)
      assert.strictEqual(yield* of("background_stalled", "message claims"), 0)
      yield* Effect.orDie(sql`ALTER TABLE elsewhere RENAME TO campaign_recipients`)
      yield* passUntil(of("background_stalled", "campaign progress"), (stalled) => stalled === 0)
    }
  )
})

it("a fiber of the service is under supervision, or belongs to a request or a command", () => {
  const own = [
    // The note that a key was used, which no request waits for.
    "http/auth/Credentials.ts",
    // The sessions of a move, which a command keeps open.
    "cells/Sides.ts",
    // The line of a command's progress.
    "cli/Output.ts",
    // The embedded PostgreSQL, which restarts its server itself.
    "sql/embedded/EmbeddedPostgres.ts",
    "work/Supervisor.ts"
  ]
  const root = new URL("../../src/", import.meta.url)
  const found = readdirSync(root, { recursive: true, encoding: "utf8" }).filter(
    (path) => path.endsWith(".ts") && /\bfork(?:Scoped|Detach|In)\b/.test(readFileSync(new URL(path, root), "utf8"))
  )
  assert.deepStrictEqual(found.toSorted(), own.toSorted())
})
