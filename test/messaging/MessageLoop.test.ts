/** The permit of leasing attempts, and what becomes of claims that are handed over while the loop is drained or ends. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Context, Duration, Effect, Exit, Fiber, Latch, Layer, Option, Redacted, Scope } from "effect"
import { ChannelId, MessageId, ProjectId } from "../../src/api/schema/Ids.ts"
import type { Claim } from "../../src/messaging/Claim.ts"
import { Calls } from "../../src/messaging/Calls.ts"
import { MessageLoop } from "../../src/messaging/MessageLoop.ts"
import { sqlClients, DatabaseUrl } from "../../src/sql/Connections.ts"
import { Supervisor } from "../../src/work/Supervisor.ts"
import { Worker } from "../../src/work/Worker.ts"
import { worker } from "../webhooks/delivery/Due.support.ts"
import { startServer } from "../support/TestServer.ts"
import { until } from "../support/Waiting.ts"

const claimOf = (id: string, lost = false): Claim => ({
  projectId: ProjectId.make("prj_1"),
  messageId: MessageId.make(id),
  conversationId: null,
  campaignId: null,
  channelId: ChannelId.make("chan_1"),
  providerType: "sandbox",
  config: new Uint8Array(),
  address: "address",
  text: "text",
  number: 1,
  inDoubt: false,
  traceparent: "",
  lost,
  delayMillis: 0
})

/** A loop over a database without messages, with what it did with claims. Its calls end when `answer` is open. */
const opened = Effect.gen(function* () {
  const server = yield* startServer({}, "api")
  const answer = yield* Latch.make(false)
  const did: Array<string> = []
  const noting =
    (what: string): Calls["Service"]["make"] =>
    ({ messageId }) =>
      Effect.sync(() => {
        did.push(`${what} ${messageId}`)
        return Option.none()
      })
  const calls = Calls.of({
    lease: Duration.minutes(1),
    make: (claim) => Effect.tap(noting("called")(claim), answer.await),
    lose: noting("lost"),
    postpone: noting("postponed"),
    drain: Effect.void
  })
  const services = yield* MessageLoop.layer.pipe(
    Layer.provide(Layer.succeed(Calls, calls)),
    Layer.provide(Layer.succeed(Worker, worker)),
    Layer.provideMerge(Supervisor.layer),
    Layer.provide(sqlClients.workers),
    Layer.provide(Layer.succeed(DatabaseUrl, Redacted.make(server.databaseUrl))),
    Layer.build
  )
  const loop = Context.get(services, MessageLoop)
  const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
  return {
    answer,
    did,
    end: Context.get(services, Supervisor).end,
    loop,
    /** Takes the terms, until `release`. */
    terms: Scope.provide(loop.terms, scope),
    release: Scope.close(scope, Exit.void)
  }
})

const hasTerms = (loop: MessageLoop["Service"]) => Effect.map(Effect.scoped(loop.terms), Option.isSome)

describe("the loop of messages", () => {
  it.live("gives terms to one statement at a time, also after one has failed", function* () {
    const { loop, release, terms } = yield* opened
    assert.isTrue(Option.isSome(yield* terms))
    const next = yield* Effect.forkScoped(hasTerms(loop))
    yield* Effect.sleep("100 millis")
    assert.isUndefined(next.pollUnsafe())
    yield* release
    assert.isTrue(yield* Fiber.join(next))
    yield* Effect.exit(Effect.scoped(Effect.andThen(loop.terms, Effect.fail("the statement has failed"))))
    assert.isTrue(yield* hasTerms(loop))
  })

  it.live("waits in a drain for a statement in progress and for the calls of what it leases", function* () {
    const { answer, did, loop, release, terms } = yield* opened
    yield* terms
    const drained = yield* Effect.forkScoped(loop.drain)
    yield* Effect.sleep("100 millis")
    yield* loop.make([claimOf("msg_1"), claimOf("msg_2", true)])
    yield* release
    yield* until(() => did.length === 2)
    assert.deepStrictEqual([...did].sort(), ["called msg_1", "lost msg_2"])
    yield* Effect.sleep("100 millis")
    assert.isUndefined(drained.pollUnsafe())
    yield* answer.open
    yield* Fiber.join(drained)
    assert.isFalse(yield* hasTerms(loop))
  })

  it.live("gives back what a statement leases while the process ends", function* () {
    const { did, end, loop, release, terms } = yield* opened
    yield* terms
    const ended = yield* Effect.forkScoped(end)
    yield* Effect.sleep("100 millis")
    yield* loop.make([claimOf("msg_1"), claimOf("msg_2", true)])
    assert.deepStrictEqual([...did].sort(), ["lost msg_2", "postponed msg_1"])
    yield* release
    yield* Fiber.join(ended)
    assert.isFalse(yield* hasTerms(loop))
  })
})
