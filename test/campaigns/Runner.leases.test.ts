/** The messages of a recipient: the statements that release, record, take over and collect them, at chosen times (contract §9). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Struct } from "effect"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import type { MessageStatus } from "../../src/api/messaging/Messaging.ts"
import { find } from "../../src/messaging/MessageList.ts"
import { countStuck } from "../../src/project/Waiting.ts"
import { settle } from "../../src/messaging/Messages/Repo.ts"
import { outcomes } from "../../src/messaging/providers/Providers.ts"
import { TestServer } from "../support/TestServer.ts"
import { accepted, lease, nowhere, postponed, refused, scene, unclear } from "./Runner.scene.support.ts"
import { httpChannel } from "./Runner.support.ts"

const hour = 3_600_000

/** Number of attempts of a message (contract §8). */
const maxAttempts = 5

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a campaign recipient", (it) => {
  it.effect("is released by no other worker until its lease has ended", function* () {
    const { claimed, claims, reclaim, recipientState } = yield* scene()
    yield* claimed(0)
    yield* reclaim(lease - 1)
    assert.strictEqual(yield* recipientState, "sending primary 1")
    assert.deepStrictEqual(yield* claims(lease - 1), [])
    yield* reclaim(lease)
    assert.strictEqual(yield* recipientState, "pending primary 1 in doubt")
    const { inDoubt, number } = yield* claimed(lease + 1_000)
    assert.deepStrictEqual({ number, inDoubt }, { number: 2, inDoubt: true })
  })

  it.effect("is not called again after a lost lease when the provider has no idempotency keys", function* () {
    const { claimed, reclaim, record, recipientState } = yield* scene({ primaryType: "telegram", fallback: nowhere })
    const first = yield* claimed(0)
    yield* reclaim(lease)
    assert.strictEqual(yield* recipientState, "unknown primary 1 in doubt")
    // A worker whose lease has ended cannot record it as sent.
    yield* record(first, accepted)
    assert.strictEqual(yield* recipientState, "unknown primary 1 in doubt")
  })

  it.effect("holds no lease while it waits for the next attempt", function* () {
    const { claimed, claims, reclaim, record, recipientState } = yield* scene({ primaryType: "telegram" })
    yield* record(yield* claimed(0), postponed)
    yield* reclaim(2 * lease)
    assert.strictEqual(yield* recipientState, "pending primary 1")
    assert.deepStrictEqual(yield* claims(999), [])
    assert.strictEqual((yield* claimed(1_000)).number, 2)
  })

  it.effect("keeps the route of its last call when the lease is lost", function* () {
    const { claimed, messages, reclaim, record, recipientState } = yield* scene({
      primaryType: "telegram",
      fallback: nowhere
    })
    yield* record(yield* claimed(0), refused)
    assert.strictEqual(yield* recipientState, "pending fallback 0")
    const { channelId } = yield* claimed(1)
    assert.strictEqual(channelId, "fallback")
    yield* reclaim(1 + lease)
    assert.strictEqual(yield* recipientState, "pending fallback 1 in doubt")
    assert.deepStrictEqual(yield* messages, ["failed primary", "unknown fallback"])
  })

  it.effect(
    "is not called again after an unknown outcome when the channel's new provider has no idempotency keys",
    function* () {
      const { apply, claimed, claims, messages, record, recipientState } = yield* scene({ fallback: nowhere })
      yield* record(yield* claimed(0), unclear)
      assert.strictEqual(yield* recipientState, "pending primary 1 in doubt")
      yield* apply({
        channels: [{ id: "primary", providerType: "telegram", displayName: "Bot", config: { token: "1:a" } }]
      })
      assert.deepStrictEqual(yield* claims(lease), [])
      assert.strictEqual(yield* recipientState, "unknown primary 1 in doubt")
      assert.deepStrictEqual(yield* messages, ["unknown primary"])
    }
  )

  it.effect(
    "is not called again after a lost lease when the provider of the call had no idempotency keys",
    function* () {
      const { apply, claimed, claims, reclaim, recipientState } = yield* scene({ primaryType: "telegram" })
      yield* claimed(0)
      yield* apply({ channels: [httpChannel("primary", nowhere)] })
      yield* reclaim(lease)
      assert.strictEqual(yield* recipientState, "unknown primary 1 in doubt")
      assert.deepStrictEqual(yield* claims(2 * lease), [])
    }
  )

  it.effect("is unknown after five lost leases in a row", function* () {
    const { claimed, reclaim, recipientState } = yield* scene()
    for (let attempt = 1; attempt <= maxAttempts; attempt++) {
      yield* claimed(attempt * hour)
      yield* reclaim(attempt * hour + lease)
    }
    assert.strictEqual(yield* recipientState, "unknown primary 5 in doubt")
  })

  it.effect("ignores a result that arrives while another worker holds the lease", function* () {
    const { claimed, reclaim, record, recipientState } = yield* scene()
    const first = yield* claimed(0)
    yield* reclaim(lease)
    yield* record(first, refused)
    assert.strictEqual(yield* recipientState, "pending primary 1 in doubt")
    const second = yield* claimed(2 * lease)
    yield* record(first, refused)
    assert.strictEqual(yield* recipientState, "sending primary 2 in doubt")
    yield* record(second, accepted)
    yield* record(first, refused)
    assert.strictEqual(yield* recipientState, "sent primary 2 in doubt")
  })

  it.effect("stays on the fallback when the result that led there is recorded twice", function* () {
    const { claimed, record, recipientState } = yield* scene({ fallback: nowhere })
    const first = yield* claimed(0)
    yield* record(first, refused)
    yield* claimed(1)
    yield* record(first, refused)
    assert.strictEqual(yield* recipientState, "sending fallback 1")
  })

  it.effect(
    "has its messages in the lists of operators, who have to settle only those that nothing follows",
    function* () {
      const { claimed, projectId, record, recipientState, sql } = yield* scene()
      const stuck = Effect.map(
        Effect.orDie(countStuck(sql)),
        (counts) => counts.find(({ kind }) => kind === "unsettled")?.count ?? 0
      )
      const listed = (status: MessageStatus) =>
        Effect.map(
          Effect.orDie(find(sql, ProjectId.make(projectId), status, { after: null, limit: 10 })),
          ({ items }) => items.map((message) => Struct.omit(message, ["createdAt"]))
        )
      const others = yield* stuck
      for (const [attempt, state] of [...Array<string>(maxAttempts - 1).fill("pending"), "unknown"].entries()) {
        const claim = yield* claimed(attempt * hour)
        const common = { messageId: claim.messageId, conversationId: null, client: "Client 0", channel: "primary" }
        assert.deepStrictEqual(yield* listed(attempt === 0 ? "pending" : "unknown"), [
          { ...common, deliveryStatus: attempt === 0 ? "pending" : "unknown", attempts: attempt + 1 }
        ])
        yield* record(claim, unclear, attempt * hour)
        assert.include(yield* recipientState, state)
        assert.strictEqual(yield* stuck, others + (state === "unknown" ? 1 : 0))
      }
    }
  )

  it.effect("is asked again after a lost call that only attempts without a call preceded", function* () {
    const { claimed, reclaim, record, recipientState } = yield* scene()
    for (let n = 0; n < maxAttempts - 1; n++) yield* record(yield* claimed(n * hour), outcomes.circuitOpen, n * hour)
    yield* claimed(maxAttempts * hour)
    yield* reclaim(maxAttempts * hour + lease)
    assert.strictEqual(yield* recipientState, "pending primary 5 in doubt")
  })

  it.effect("gets the outcome of its call after its campaign was cancelled and deleted", function* () {
    const { claimed, projectId, record, recipientState, sql } = yield* scene()
    const claim = yield* claimed(0)
    yield* sql`DELETE FROM campaigns WHERE project_id = ${projectId}`
    yield* record(claim, accepted)
    assert.strictEqual(yield* recipientState, "sent primary 1")
  })

  it.effect("follows what an operator settles, whether its message waits or is unknown for good", function* () {
    for (const primaryType of ["http", "telegram"] as const) {
      const { claimed, claims, messages, projectId, record, recipientState, sql } = yield* scene({ primaryType })
      const claim = yield* claimed(0)
      yield* record(claim, unclear)
      yield* settle(sql, ProjectId.make(projectId), claim.messageId, "settled_sent", new Date(), "tester")
      assert.strictEqual(yield* recipientState, "sent primary 1 in doubt")
      assert.deepStrictEqual(yield* messages, ["sent primary"])
      assert.deepStrictEqual(yield* claims(hour), [])
    }
  })
})
