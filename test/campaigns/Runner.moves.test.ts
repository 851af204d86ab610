/** The start of campaigns, and commands on running ones (contract §9). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { TestServer } from "../support/TestServer.ts"
import { addressOf, campaignOf, provider, sendOf } from "./Runner.support.ts"
import { until, untilRows } from "../support/Waiting.ts"

const minute = 60_000
const late = -6 * 60 * minute

/** A plan that takes six seconds at its rate. */
const sixty = { recipients: 60, sendsPerMinute: 600 }
const everyone = Array.from({ length: sixty.recipients }, (_, index) => addressOf(index)).sort()

/** Milliseconds from a call to the end of its lease, with the settings of the server. */
const lease = 15_000

/**
 * Waits until all leased recipients are settled, which takes a second at most. Returns the number of calls; no further
 * call follows within a second.
 */
const countWhenIdle = Effect.fnUntraced(function* (
  { projectId, recipients, sql }: Effect.Success<ReturnType<typeof campaignOf>>,
  { hits }: Effect.Success<ReturnType<typeof provider>>
) {
  const now = Date.now()
  const leased = yield* Effect.orDie(sql<{ readonly until: Date }>`
    SELECT available_at AS until FROM messages WHERE project_id = ${projectId} AND attempting`)
  for (const { until } of leased) assert.isAtMost(until.getTime() - lease - now, 1_000)
  yield* untilRows(recipients, (rows) => rows.every(({ status }) => status !== "sending"))
  const count = hits.length
  yield* Effect.sleep("1 seconds")
  assert.strictEqual(hits.length, count)
  return count
})

layer(TestServer.layer(), { excludeTestServices: true })("a campaign", (it) => {
  it.effect("begins at its time, not before", function* () {
    const server = yield* TestServer
    const { hits, url } = yield* provider()
    const plan = { recipients: 1, primary: url, status: "scheduled", scheduledIn: 1_500 } as const
    const { projectId, settled, sql } = yield* campaignOf(server, plan)
    yield* settled("completed")
    const [row] = yield* Effect.orDie(sql<{ readonly at: Date }>`
      SELECT scheduled_for AS at FROM campaigns WHERE project_id = ${projectId}`)
    assert.isAtLeast(hits[0]?.at ?? 0, row?.at.getTime() ?? Infinity)
  })

  it.effect("begins when it is almost six hours late", function* () {
    const server = yield* TestServer
    const { hits, url } = yield* provider()
    const plan = { recipients: 2, primary: url, status: "scheduled", scheduledIn: late + minute } as const
    const { settled } = yield* campaignOf(server, plan)
    yield* settled("completed")
    assert.strictEqual(hits.length, 2)
  })

  it.effect("is paused when it is six hours late, and begins when it is resumed", function* () {
    const server = yield* TestServer
    const { hits, url } = yield* provider()
    const plan = { recipients: 2, primary: url, status: "scheduled", scheduledIn: late - minute } as const
    const { campaign, command, settled } = yield* campaignOf(server, plan)
    yield* settled("paused")
    assert.deepStrictEqual(yield* campaign, { status: "paused", version: 2, pausedFrom: "scheduled" })
    assert.strictEqual(hits.length, 0)
    assert.isTrue((yield* command("resume")).changed)
    yield* settled("completed")
    assert.strictEqual(hits.length, 2)
    // Three versions later: resumed, begun and completed.
    assert.strictEqual((yield* campaign).version, 5)
  })

  it.effect("was never changed before a change that a process whose clock is ahead has made", function* () {
    const { url } = yield* provider()
    const plan = { recipients: 1, primary: url, status: "scheduled", scheduledIn: 60 * minute } as const
    const { projectId, settled, sql } = yield* campaignOf(yield* TestServer, plan)
    const ahead = new Date(Date.now() + minute)
    yield* Effect.orDie(sql`
      UPDATE campaigns SET updated_at = ${ahead}, scheduled_for = now() WHERE project_id = ${projectId}`)
    yield* settled("completed")
    assert.deepStrictEqual(
      yield* Effect.orDie(sql`
        SELECT started_at AS started, ended_at AS ended, updated_at AS updated FROM campaigns WHERE project_id = ${projectId}`),
      [{ started: ahead, ended: ahead, updated: ahead }]
    )
  })

  it.effect("sends nothing while it is paused, and sends the remaining messages when it is resumed", function* () {
    const server = yield* TestServer
    const receiver = yield* provider()
    const { hits, url } = receiver
    const scene = yield* campaignOf(server, { ...sixty, primary: url })
    const { campaign, command, settled } = scene
    yield* until(() => hits.length > 2)
    yield* command("pause")
    assert.isBelow(yield* countWhenIdle(scene, receiver), sixty.recipients)
    assert.strictEqual((yield* campaign).pausedFrom, "running")
    // The others need not be spread over seconds.
    yield* Effect.orDie(scene.sql`UPDATE campaigns SET sends_per_minute = 60000 WHERE project_id = ${scene.projectId}`)
    yield* command("resume")
    yield* settled("completed")
    assert.deepStrictEqual(hits.map((hit) => sendOf(hit).recipient).sort(), everyone)
  })

  it.effect("sends nothing after it is cancelled", function* () {
    const server = yield* TestServer
    const receiver = yield* provider()
    const { hits, url } = receiver
    const scene = yield* campaignOf(server, { ...sixty, primary: url })
    const { campaign, command, recipients } = scene
    yield* until(() => hits.length > 2)
    yield* command("cancel")
    const sent = yield* countWhenIdle(scene, receiver)
    assert.isBelow(sent, sixty.recipients)
    assert.strictEqual((yield* campaign).status, "cancelled")
    assert.strictEqual((yield* recipients).filter(({ status }) => status === "sent").length, sent)
    assert.strictEqual((yield* recipients).filter(({ status }) => status === "pending").length, 60 - sent)
  })
})
