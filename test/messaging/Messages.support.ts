/** The services that send and retry messages, with providers whose answers a test controls. */
import { assert } from "@effect/vitest"
import { Clock, ConfigProvider, Context, Deferred, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { randomBytes } from "node:crypto"
import { ConversationId, ProjectId } from "../../src/api/schema/Ids.ts"
import { Calls } from "../../src/messaging/Calls.ts"
import type { Outcome } from "../../src/messaging/providers/Outcomes.ts"
import { MessageLoop } from "../../src/messaging/MessageLoop.ts"
import { settleMessage } from "../../src/messaging/Messages.ts"
import { Providers } from "../../src/messaging/providers/Providers.ts"
import { makeSend } from "../../src/messaging/Sending.ts"
import { Supervisor } from "../../src/platform/background/Supervisor.ts"
import { Worker } from "../../src/platform/background/Worker.ts"
import { command } from "../../src/platform/mutations/Idempotency.ts"
import type { SecretBox } from "../../src/platform/secrets/SecretBox.ts"
import { Settings } from "../../src/platform/Settings.ts"
import { applyProject } from "../../src/project/Projects.ts"
import type { MessageRow } from "../contract/Messages.support.ts"
import { databaseClock } from "../support/DatabaseClock.ts"
import { untilRows } from "../support/Waiting.ts"
import { type File, services, textOf } from "../project/Projects.support.ts"

/** A provider call that waits for the test's answer. */
export interface Call {
  readonly messageId: string
  readonly at: number
  readonly answer: (outcome: Outcome) => Effect.Effect<unknown>
}

/** All calls, the oldest first. */
export class Made extends Context.Service<Made, { readonly calls: ReadonlyArray<Call> }>()(
  "developer-api/test/messaging/Made"
) {}

const providers = Layer.effectContext(
  Effect.sync(() => {
    const calls: Array<Call> = []
    const providers = Providers.of({
      send: (_, { messageId }) =>
        Effect.gen(function* () {
          const done = yield* Deferred.make<Outcome>()
          const at = yield* Clock.currentTimeMillis
          calls.push({ messageId, at, answer: (outcome) => Deferred.succeed(done, outcome) })
          return yield* Deferred.await(done)
        })
    })
    return Context.make(Providers, providers).pipe(Context.add(Made, { calls }))
  })
)

const settings = Settings.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: {} }))))

/** A worker that considers no other worker dead, so that leases end only by their time. */
const soleWorker = Layer.succeed(Worker, {
  id: 1n,
  leaseId: () => null,
  isFirst: () => true,
  isDead: (sql) => sql`false`
})

/** The services under a test clock: `PROVIDER_TIMEOUT` is 10 s, and a lease 15 s. */
export const engine = MessageLoop.layer.pipe(
  Layer.provideMerge(Calls.layer),
  Layer.provide([soleWorker, Supervisor.layer]),
  Layer.provideMerge(databaseClock),
  Layer.provideMerge(providers),
  Layer.provideMerge(settings),
  Layer.provideMerge(services)
)

const conversationId = ConversationId.make("0193f0cb-d4e5-4f70-8192-0000000000a1")

export type Provider = "sandbox" | "telegram"
type Channel = NonNullable<File["channels"]>[number]

const channelOf = (provider: Provider, status: "active" | "revoked" = "active"): Channel =>
  provider === "sandbox"
    ? { id: "channel", providerType: "sandbox", displayName: "C", status }
    : { id: "channel", providerType: "telegram", displayName: "C", status, config: { token: "1:a" } }

/** Creates a project with one conversation; returns its operations. */
export const openProject = Effect.fnUntraced(function* (provider: Provider) {
  const [sql, send] = [yield* SqlClient.SqlClient, yield* makeSend]
  const context = yield* Effect.context<SqlClient.SqlClient | SecretBox>()
  const projectId = ProjectId.make(`prj_${randomBytes(6).toString("hex")}`)
  const apply = (channel: Channel) =>
    applyProject(
      textOf(projectId, {
        channels: [channel],
        conversations: [{ id: conversationId, channelId: "channel", address: "a" }]
      })
    ).pipe(Effect.provideContext(context), Effect.orDie)
  yield* apply(channelOf(provider))
  const payload = { text: "Hello" }
  const request = {
    endpoint: { identifier: "sendMessage" },
    headers: { "idempotency-key": "key" },
    params: { conversationId },
    payload
  }
  return {
    projectId,
    /** Sends the same request each time, under the same key. */
    send: Effect.suspend(() => send(command(projectId, request), conversationId, payload.text).pipe(Effect.orDie)),
    settle: (id: string, as: "sent" | "failed") => settleMessage(projectId, id, as),
    revoke: apply(channelOf(provider, "revoked")),
    restore: apply(channelOf(provider)),
    /** Changes the channel to another provider. */
    swap: apply({
      id: "channel",
      providerType: "http",
      displayName: "C",
      config: { url: "https://x.example/", signingSecret: "whsec_AAAA" }
    }),
    row: Effect.map(
      Effect.orDie(sql<MessageRow & { readonly id: string }>`
        SELECT id, status, attempts, attempting, available_at AS "availableAt", attempt_log AS log
        FROM messages WHERE project_id = ${projectId}`),
      ([row = assert.fail("no message")]) => row
    )
  }
})

/** Repeats a query in real time, without advancing the clock, until its result satisfies `holds`. */
export const untilLive = <A, R>(look: Effect.Effect<A, never, R>, holds: (found: A) => boolean) =>
  TestClock.withLive(untilRows(look, holds))

/**
 * Advances the clock in steps of the interval of claims until something holds. While an attempt is in flight, the clock waits
 * for it, so that a slow machine does not miss a state that lasts only as long as the shortest backoff.
 */
export const untilLater = Effect.fnUntraced(
  function* <A, R>(
    look: Effect.Effect<A, never, R>,
    holds: (found: A) => boolean,
    isUnderWay: (found: A) => boolean = () => false
  ) {
    // The attempt may belong to a killed process; then only time ends it.
    for (let waits = 0, found = yield* look; !holds(found); found = yield* look) {
      if (isUnderWay(found) && ++waits % 50 > 0) yield* TestClock.withLive(Effect.sleep("5 millis"))
      else yield* Effect.andThen(TestClock.adjust("250 millis"), TestClock.withLive(Effect.sleep("20 millis")))
    }
  },
  Effect.raceFirst(
    TestClock.withLive(Effect.andThen(Effect.sleep("45 seconds"), Effect.die("The condition did not hold within 45 s")))
  )
)
