/** Every move between the states of a message by its statement, and the fence that refuses stale results. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Struct } from "effect"
import type { AttemptStatus, MessageStatus } from "../../src/api/messaging/Messaging.ts"
import { ChannelId, ConversationId, MessageId, ProjectId } from "../../src/api/schema/Ids.ts"
import { type Lease, record } from "../../src/messaging/Calls.ts"
import { claim } from "../../src/messaging/Claim.ts"
import { settle } from "../../src/messaging/MessageControl.ts"
import { type Result, resultOf as resultAfter } from "../../src/messaging/Message.ts"
import { byFailure } from "../../src/messaging/providers/Connector.ts"
import { begun, conversations, httpChannel, open, placesIn } from "../contract/Messages.support.ts"
import { newKey } from "../contract/Requests.ts"
import { limitsOf, timeOf } from "../support/Claims.ts"
import { TestServer } from "../support/TestServer.ts"

const minute = 60_000

/** The statements run at the due time or the end of the lease. */
const places = placesIn(minute)
type Place = keyof typeof places
const everyPlace = Struct.keys(places)
const underWay = new Set<Place>(["pending", "retrying, under way", "unknown, under way"])
const waiting = new Set<Place>(["retrying, waiting", "unknown, waiting"])
const isUnknown = (place: Place) => place.startsWith("unknown")

/** Creates a message in a state, in a project that only the test uses. */
const openAt = Effect.fnUntraced(function* (place: Place) {
  const server = yield* TestServer
  const project = yield* open(server)
  const start = Date.now()
  const { messageId } = yield* project.sent(newKey())
  yield* project.leave(messageId, places[place], start)
  const everything = Effect.map(
    Effect.orDie(
      server.sql`SELECT to_jsonb(messages) AS message FROM messages WHERE project_id = ${project.projectId}`
    ),
    ([row]) => row
  )
  const now = new Date(start + minute)
  return {
    ...project,
    sql: server.sql,
    id: MessageId.make(messageId),
    everything,
    now,
    leaseEnd: new Date(start + 2 * minute),
    /** Records a result at `now`. */
    record: (lease: Lease, result: Result) => record(server.sql, timeOf(server.sql, now), [{ lease, result }])
  }
})
type Shop = Effect.Success<ReturnType<typeof openAt>>

const leaseOf = ({ id, projectId }: Shop, number: number): Lease => ({
  projectId: ProjectId.make(projectId),
  messageId: id,
  conversationId: ConversationId.make(conversations.sandbox),
  campaignId: null,
  channelId: ChannelId.make("sandbox"),
  providerType: "sandbox",
  config: new Uint8Array(),
  address: "",
  text: "",
  number,
  inDoubt: false,
  traceparent: ""
})

const resultOf = (on: Result["on"]): Result => ({
  on,
  providerMessageId: on === "accepted" ? "p" : null,
  errorCode: on === "accepted" ? null : "some_code",
  delayMillis: on === "postponed" || on === "unclear" ? minute : null
})

/** The outcomes of a call: event, status of the message, and status of the attempt. */
const ends = [
  ["accepted", "sent", "accepted"],
  ["refused", "failed", "rejected"],
  ["postponed", "retrying", "retrying"],
  ["exhausted", "failed", "rejected"],
  ["ended_in_doubt", "unknown", "rejected"],
  ["unclear", "unknown", "unknown"]
] as const satisfies ReadonlyArray<readonly [Result["on"], MessageStatus, AttemptStatus]>

const claimIn = (shop: Shop, at: Date) =>
  Effect.map(
    Effect.orDie(
      claim(shop.sql, { now: timeOf(shop.sql, at), leaseMillis: minute, workerId: null, limits: limitsOf(1_000) })
    ),
    (claims) => claims.filter(({ projectId }) => projectId === shop.projectId)
  )

const settleAs = (shop: Shop, as: "sent" | "failed") =>
  Effect.orDie(settle(shop.sql, ProjectId.make(shop.projectId), shop.id, `settled_${as}`, shop.now, "tester"))

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a message in the state machine", (it) => {
  it.effect("keeps the attempts with a call and the newest of the others, of which none counts", function* () {
    const shop = yield* openAt("retrying, waiting")
    const called = new Set([1, 7, 43, 44, 45])
    for (let number = 2; number <= 45; number++) {
      const at = new Date(shop.now.getTime() + number * 3 * minute)
      const [lease = assert.fail("nothing is claimed")] = yield* claimIn(shop, at)
      assert.strictEqual(lease.number, number)
      const result = resultAfter(lease, byFailure(called.has(number) ? "connect_failed" : "host_exhausted"))
      yield* record(shop.sql, timeOf(shop.sql, at), [{ lease, result }])
    }
    const { log, status } = yield* shop.row(shop.id)
    assert.strictEqual(status, "failed")
    const newest = Array.from({ length: 28 }, (_, n) => n + 15)
    assert.deepStrictEqual(
      log.map(({ number }) => number),
      [1, 7, ...newest, 43, 44, 45]
    )
  })

  for (const place of everyPlace) {
    for (const [on, to, end] of ends) {
      const moves = underWay.has(place)
      it.effect(`${place}: ${on} ${moves ? `makes it ${to}` : "changes nothing"}`, function* () {
        const shop = yield* openAt(place)
        const before = yield* shop.everything
        const result = resultOf(on)
        const recorded = yield* shop.record(leaseOf(shop, 1), result)
        if (!moves) {
          assert.deepStrictEqual(recorded, [])
          return assert.deepStrictEqual(yield* shop.everything, before)
        }
        const row = yield* shop.row(shop.id)
        const nextAttemptAt = result.delayMillis === null ? null : new Date(shop.now.getTime() + minute)
        assert.deepInclude(row, { status: to, attempts: 1, attempting: false, availableAt: nextAttemptAt })
        const { delayMillis: _, on: __, ...rest } = result
        const iso = (date: Date | null) => date?.toISOString() ?? null
        const times = { finishedAt: iso(shop.now), nextAttemptAt: iso(nextAttemptAt) }
        assert.deepInclude(row.log[0], { number: 1, status: end, ...rest, ...times })
        assert.propertyVal(recorded[0], "deliveryStatus", to)
        // A second record changes nothing, with any result.
        const after = yield* shop.everything
        for (const [again] of ends) yield* shop.record(leaseOf(shop, 1), resultOf(again))
        assert.deepStrictEqual(yield* shop.everything, after)
      })
    }

    for (const as of ["sent", "failed"] as const) {
      it.effect(`${place}: settled as ${as} ${isUnknown(place) ? `it is ${as}` : "changes nothing"}`, function* () {
        const shop = yield* openAt(place)
        const before = yield* shop.everything
        const [settled] = yield* settleAs(shop, as)
        assert.strictEqual(settled?.settled, isUnknown(place))
        if (!isUnknown(place)) return assert.deepStrictEqual(yield* shop.everything, before)
        const row = yield* shop.row(shop.id)
        assert.deepInclude(row, { status: as, attempts: 1, attempting: false, availableAt: null })
        assert.deepInclude(row.log[0], { status: "unknown", providerMessageId: null, nextAttemptAt: null })
        assert.isNotNull(row.log[0]?.finishedAt)
        // The outcome of the call in flight is ignored, and no other call is made.
        const after = yield* shop.everything
        for (const [on] of ends) yield* shop.record(leaseOf(shop, 1), resultOf(on))
        assert.deepStrictEqual(yield* claimIn(shop, shop.leaseEnd), [])
        yield* settleAs(shop, as === "sent" ? "failed" : "sent")
        assert.deepStrictEqual(yield* shop.everything, after)
      })
    }

    it.effect(`${place}: looked for before its time, or while its project is at rest, is left alone`, function* () {
      const shop = yield* openAt(place)
      const before = yield* shop.everything
      assert.deepStrictEqual(yield* claimIn(shop, new Date(shop.now.getTime() - 1)), [])
      yield* Effect.orDie(shop.sql`
        UPDATE projects SET move_state = 'switched' WHERE project_id = ${shop.projectId}`)
      assert.deepStrictEqual(yield* claimIn(shop, shop.now), [])
      assert.deepStrictEqual(yield* shop.everything, before)
    })

    it.effect(`${place}: looked for at its time, ${claimed(place)}`, function* () {
      const shop = yield* openAt(place)
      const before = yield* shop.everything
      const claims = yield* claimIn(shop, shop.now)
      const row = yield* shop.row(shop.id)
      const { status } = places[place]
      if (waiting.has(place)) {
        assert.deepInclude(claims[0], { messageId: shop.id, number: 2, lost: false, inDoubt: isUnknown(place) })
        assert.deepInclude(row, { status, attempts: 2, attempting: true, availableAt: shop.leaseEnd })
        assert.deepStrictEqual(row.log[1], {
          ...begun,
          number: 2,
          status: "pending",
          startedAt: shop.now.toISOString()
        })
      } else if (underWay.has(place)) {
        assert.deepInclude(claims[0], { messageId: shop.id, number: 1, lost: true })
        // A repeated request does not report the message as in flight.
        assert.deepInclude(row, { status: "unknown", attempts: 1, attempting: true, availableAt: shop.leaseEnd })
      } else {
        assert.deepStrictEqual(claims, [])
        return assert.deepStrictEqual(yield* shop.everything, before)
      }
      assert.lengthOf(claims, 1)
      // It is leased, so no other process can claim it.
      assert.deepStrictEqual(yield* claimIn(shop, shop.now), [])
    })

    it.effect(`${place}: without its channel, ${abandoned(place)}`, function* () {
      for (const lost of [
        { id: "sandbox", providerType: "sandbox", displayName: "S", status: "revoked" } as const,
        httpChannel("sandbox", "http://127.0.0.1:9/")
      ]) {
        const shop = yield* openAt(place)
        yield* shop.apply({ channels: [lost] })
        const before = yield* shop.everything
        const claims = yield* claimIn(shop, shop.now)
        if (!waiting.has(place)) {
          // The attempt in flight began while the channel existed: its result is still recorded.
          assert.deepStrictEqual(
            claims.map(({ lost }) => lost),
            underWay.has(place) ? [true] : []
          )
          if (claims.length === 0) assert.deepStrictEqual(yield* shop.everything, before)
          continue
        }
        assert.deepStrictEqual(claims, [])
        const status = isUnknown(place) ? "unknown" : "failed"
        const row = yield* shop.row(shop.id)
        assert.deepInclude(row, { status, attempts: 1, attempting: false, availableAt: null })
        assert.isNull(row.log[0]?.nextAttemptAt)
      }
    })
  }

  it.effect("ignores the result of an attempt that another has followed", function* () {
    const shop = yield* openAt("retrying, waiting")
    const [second = assert.fail("not claimed")] = yield* claimIn(shop, shop.now)
    const before = yield* shop.everything
    for (const [on] of ends) yield* shop.record(leaseOf(shop, 1), resultOf(on))
    for (const [on] of ends) yield* shop.record(leaseOf(shop, 3), resultOf(on))
    assert.deepStrictEqual(yield* shop.everything, before)
    yield* shop.record(second, resultOf("accepted"))
    assert.strictEqual((yield* shop.row(shop.id)).status, "sent")
  })

  it.effect("accepts a result in its own project only", function* () {
    const shop = yield* openAt("pending")
    const neighbour = yield* openAt("pending")
    const before = yield* shop.everything
    const stray = { ...leaseOf(shop, 1), projectId: ProjectId.make(neighbour.projectId) }
    assert.deepStrictEqual(yield* shop.record(stray, resultOf("accepted")), [])
    yield* settle(shop.sql, ProjectId.make(neighbour.projectId), shop.id, "settled_sent", shop.now, "tester")
    assert.deepStrictEqual(yield* shop.everything, before)
  })
})

function claimed(place: Place) {
  if (waiting.has(place)) return "it is attempted again"
  return underWay.has(place) ? "its attempt is lost" : "it is left alone"
}

function abandoned(place: Place) {
  if (waiting.has(place)) return isUnknown(place) ? "it is unknown for good" : "it has failed"
  return "nothing is new"
}
