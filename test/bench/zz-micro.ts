// CPU of sending alone: node:http poster vs attempt()
import { Effect, Layer, Context, Duration, Redacted, FiberSet, References } from "effect"
import { NodeServices } from "@effect/platform-node"
import { fork } from "node:child_process"
import { attempt } from "../../src/integrations/Deliveries/Attempt.ts"
import * as Secrets from "../../src/integrations/Deliveries/Secrets.ts"
import { Sender } from "../../src/integrations/Sender.ts"
import { networksOf } from "../../src/integrations/Addresses.ts"
import { SecretBox } from "../../src/platform/SecretBox.ts"
import { SecretKey } from "../../src/platform/SecretKey.ts"
import { secretOwner } from "../../src/integrations/Webhooks/Secrets.ts"
import { poster } from "./deliveries/Post.ts"
import { secret } from "./deliveries/Endpoints.ts"
import * as Endpoints from "./deliveries/Endpoints.ts"
import { makeWork, installationId, projectId, eventType, traceparent } from "./deliveries/Work.ts"
const key = SecretKey.make(Redacted.make(Buffer.alloc(32, 7).toString("base64")))
const program = Effect.gen(function* () {
  const endpoints = yield* Endpoints.make(Redacted.make("postgres://x"), 50)
  const box = yield* SecretBox,
    sender = yield* Sender
  const work = yield* makeWork(20000, 50)
  const sealed = yield* Effect.forEach(endpoints.urls, (_, i) =>
    box.seal(secretOwner(projectId, installationId(i)), Redacted.make(secret))
  )
  const claims = work.map((w) => ({
    projectId,
    installationId: installationId(w.endpoint),
    id: w.id,
    attempt: 1,
    retries: 0,
    endpointUrl: endpoints.urls[w.endpoint],
    secrets: [sealed[w.endpoint]],
    eventId: w.eventId,
    type: eventType,
    data: w.data,
    occurredAt: new Date(),
    traceparent
  })) as any[]
  const jobs = work.map((w) => ({
    id: w.id,
    url: endpoints.urls[w.endpoint]!,
    traceparent,
    event: {
      id: w.eventId,
      type: eventType,
      timestamp: w.occurredAt,
      projectId,
      installationId: installationId(w.endpoint),
      data: JSON.parse(w.data)
    }
  }))
  const post = poster(secret)
  const measure = (name: string, one: (i: number) => Promise<unknown>) =>
    Effect.promise(async () => {
      const n = work.length
      const c = process.cpuUsage(),
        t = performance.now()
      let next = 0
      await Promise.all(
        Array.from({ length: 150 }, async () => {
          while (next < n) await one(next++)
        })
      )
      const u = process.cpuUsage(c)
      console.log(
        name,
        "cpu µs",
        ((u.user + u.system) / n).toFixed(1),
        "wall/s",
        ((n * 1000) / (performance.now() - t)).toFixed(0)
      )
    })
  const run = yield* FiberSet.makeRuntime<never>()
  const parts = { secrets: Secrets.make(box), sender }
  for (let k = 0; k < 4; k++) {
    if (process.env.P !== "0") yield* measure("poster", (i) => post(jobs[i]!))
    yield* measure(
      "attempt",
      (i) =>
        new Promise((resolve) => {
          run(
            Effect.map(attempt(parts, claims[i], Date.now()), (o: any) => {
              if (o.status !== 200) console.log(o)
              resolve(o)
            })
          )
        })
    )
  }
  return
}).pipe(
  Effect.scoped,
  Effect.provide(Sender.layer({ timeout: Duration.seconds(15), allowed: networksOf(["127.0.0.0/8"]) })),
  Effect.provide(SecretBox.layer.pipe(Layer.provide(Layer.succeed(SecretKey, key)))),
  Effect.provideService(References.TracerEnabled, false),
  Effect.provide(NodeServices.layer)
)
Effect.runPromise(program as any).then(
  () => process.exit(0),
  (e) => {
    console.error(e)
    process.exit(1)
  }
)
