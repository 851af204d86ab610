/** The release of recipients: its data, its order, its leases, its rate over all replicas, and its limits (contract §9). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Struct } from "effect"
import type { MessageStatus } from "../../src/api/messaging/Messaging.ts"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { collect } from "../../src/campaigns/Recipients.ts"
import { findWaiting } from "../../src/operators/Troubles.ts"
import { find, settle } from "../../src/messaging/MessageControl.ts"
import { TestServer } from "../support/TestServer.ts"
import { accepted, lease, nowhere, postponed, releasedBy, scene, termsOf, unclear } from "./Runner.scene.support.ts"
import { addressOf, campaignOf, cancelAll, clientId } from "./Runner.support.ts"

const hour = 3_600_000

/** Number of attempts of a message (contract §8). */
const maxAttempts = 5

/** Gives the campaign of a project a copy with recipients of its own. */
const copyCampaign = Effect.fnUntraced(function* (
  { projectId, sql }: Effect.Success<ReturnType<typeof campaignOf>>,
  n: number
) {
  for (const [table, ids] of [
    ["audiences", { id: `aud${n}` }],
    ["campaign_recipients", { audience_id: `aud${n}` }],
    ["campaigns", { id: `cmp${n}`, audience_id: `aud${n}` }]
  ] as const) {
    yield* Effect.orDie(sql`
      INSERT INTO ${sql(table)} SELECT (jsonb_populate_record(${sql(table)}, ${JSON.stringify(ids)}::jsonb)).*
      FROM ${sql(table)} WHERE project_id = ${projectId} AND ${table === "campaign_recipients" ? sql`audience_id` : sql`id`} IN ('aud', 'cmp')`)
  }
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a running campaign", (it) => {
  it.effect("releases a recipient to no other worker until its lease has ended", function* () {
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

  it.effect("holds no lease of a recipient that waits for the next attempt", function* () {
    const { claimed, claims, reclaim, record, recipientState } = yield* scene({ primaryType: "telegram" })
    yield* record(yield* claimed(0), postponed)
    yield* reclaim(2 * lease)
    assert.strictEqual(yield* recipientState, "pending primary 1")
    assert.deepStrictEqual(yield* claims(999), [])
    assert.strictEqual((yield* claimed(1_000)).number, 2)
  })

  it.effect(
    "has its messages in the lists of operators, who have to settle only those that nothing follows",
    function* () {
      const { claimed, projectId, record, recipientState, sql } = yield* scene()
      const stuck = Effect.map(
        Effect.orDie(findWaiting(sql)),
        (projects) => projects.find((project) => project.projectId === projectId)?.unknown ?? 0
      )
      const all = { campaignId: null, channelId: null, error: null }
      const listed = (status: MessageStatus) =>
        Effect.map(
          Effect.orDie(find(sql, ProjectId.make(projectId), { ...all, status }, { after: null, limit: 10 })),
          ({ items }) =>
            items.map(Struct.pick(["id", "conversationId", "deliveryStatus", "attempts", "client", "channel"]))
        )
      const others = yield* stuck
      for (const [attempt, state] of [...Array<string>(maxAttempts - 1).fill("pending"), "unknown"].entries()) {
        const claim = yield* claimed(attempt * hour)
        const common = {
          id: claim.messageId,
          conversationId: null,
          client: { id: clientId(0), name: "Client 0" },
          channel: "primary"
        }
        assert.deepStrictEqual(yield* listed(attempt === 0 ? "pending" : "unknown"), [
          { ...common, deliveryStatus: attempt === 0 ? "pending" : "unknown", attempts: attempt + 1 }
        ])
        yield* record(claim, unclear, attempt * hour)
        assert.include(yield* recipientState, state)
        assert.strictEqual(yield* stuck, others + (state === "unknown" ? 1 : 0))
      }
    }
  )

  it.effect(
    "repeats a send in doubt for a day, as a provider may forget its key, and any other at any time",
    function* () {
      const day = 24 * hour
      for (const [outcome, wait, state] of [
        [unclear, day - 1, "sending primary 2 in doubt"],
        [unclear, day, "unknown primary 1 in doubt"],
        [postponed, 10 * day, "sending primary 2"]
      ] as const) {
        const { claimed, claims, record, recipientState } = yield* scene()
        yield* record(yield* claimed(0), outcome)
        // The second attempt is due after a second.
        yield* claims(1_000 + wait)
        assert.strictEqual(yield* recipientState, state)
      }
    }
  )

  it.effect("gives a recipient the outcome of a message that no longer waits, without another attempt", function* () {
    const { claimed, claims, projectId, record, recipientState, sql } = yield* scene()
    yield* record(yield* claimed(0), postponed)
    yield* sql`UPDATE messages SET status = 'sent', available_at = NULL WHERE project_id = ${projectId}`
    assert.deepStrictEqual(yield* claims(hour), [])
    assert.include(yield* recipientState, "sending")
    yield* collect(sql)
    assert.include(yield* recipientState, "sent")
  })

  it.effect("gives a recipient the outcome of its call after it was cancelled and deleted", function* () {
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

  it.effect("returns the text of the route's template version and the first of several addresses", function* () {
    const { apply, claimed, projectId, sql } = yield* scene()
    yield* apply({
      templates: [2, 3].map((version) => ({ id: "tpl", version, name: "T", body: `Version ${version}` })),
      clients: [
        {
          id: clientId(0),
          displayName: "Ada",
          addresses: ["second", "first", "third"].map((address) => ({ channelId: "primary", address }))
        }
      ]
    })
    yield* sql`UPDATE campaigns SET primary_template_version = 2 WHERE project_id = ${projectId}`
    const { address, text } = yield* claimed(0)
    assert.deepStrictEqual([address, text], ["second", "Version 2"])
  })

  it.effect("replaces the placeholders of names once, wherever they stand, and nothing else", function* () {
    for (const [body, text] of [
      ["{{firstName}}{{lastName}}{{displayName}}", "First 0{{firstName}} $1"],
      ["{{{firstName}}}: {{ firstName }} {{lastname}}", "{First 0}: {{ firstName }} {{lastname}}"],
      ["{{displayName}}x{{displayName}}", "{{firstName}} $1x{{firstName}} $1"],
      ["a\\b\n", "a\\b\n"]
    ] as const) {
      const { claimed, projectId, sql } = yield* scene({ body })
      yield* sql`UPDATE clients SET display_name = '{{firstName}} $1' WHERE project_id = ${projectId}`
      assert.strictEqual((yield* claimed(0)).text, text)
    }
  })

  it.effect("returns recipients that are due for a retry before recipients without an attempt", function* () {
    const { claimed, projectId, sql } = yield* scene({ recipients: 3 })
    yield* sql`
      UPDATE campaign_recipients SET available_at = '2026-01-01', attempts = 1
      WHERE project_id = ${projectId} AND position = 2`
    const { address, number } = yield* claimed(0)
    assert.deepStrictEqual([address, number], [addressOf(2), 2])
    assert.strictEqual((yield* claimed(1)).address, addressOf(0))
  })

  it.effect("skips archived clients when the frozen filter selected active clients alone", function* () {
    for (const [contactStatus, status] of [
      ["active", "skipped"],
      ["all", "sending"]
    ] as const) {
      const { apply, claims, projectId, sql, recipientState } = yield* scene()
      yield* apply({ clients: [{ id: clientId(0), displayName: "Ada", status: "archived" }] })
      // The time of the archiving is that of a clock that is behind.
      yield* sql`UPDATE clients SET archived_at = now() - interval '1 hour' WHERE project_id = ${projectId}`
      yield* sql`
        UPDATE audiences SET filter = ${JSON.stringify({ contactStatus })}::json WHERE project_id = ${projectId}`
      yield* claims(0)
      assert.include(yield* recipientState, status)
    }
  })

  it.effect("locks no recipient that stays where it is", function* () {
    const { claimed, projectId, sql } = yield* scene({ recipients: 20 })
    yield* claimed(0)
    const locked = yield* sql`
      SELECT FROM campaign_recipients WHERE project_id = ${projectId} AND status = 'pending' AND xmax::text <> '0'`
    assert.strictEqual(locked.length, 0)
  })

  it.effect("is released although another project has many campaigns that were due before", function* () {
    const server = yield* TestServer
    const { sql } = server
    yield* cancelAll(server)
    const busy = yield* campaignOf(server, { recipients: 2, primary: nowhere })
    yield* copyCampaign(busy, 2)
    const now = Date.now()
    const { projectId } = yield* campaignOf(server, { recipients: 2, primary: nowhere })
    yield* sql`UPDATE campaigns SET next_send_at = ${new Date(now - 1)} WHERE project_id = ${projectId}`
    const claims = yield* releasedBy(sql, termsOf(sql, now, now, 2))
    assert.include(
      claims.map((claim) => claim.projectId),
      projectId
    )
  })

  it.effect(
    "is examined for at most 5,000 recipients a release together with all others, of which each project has a share",
    function* () {
      const server = yield* TestServer
      yield* cancelAll(server)
      const busy = yield* campaignOf(server, { recipients: 700, primary: nowhere })
      for (let n = 2; n <= 20; n++) yield* copyCampaign(busy, n)
      const other = yield* campaignOf(server, { recipients: 700, primary: nowhere })
      // All are skipped, and so are counted.
      yield* Effect.orDie(server.sql`UPDATE clients SET marketing_consent = false`)
      const now = Date.now()
      yield* releasedBy(server.sql, termsOf(server.sql, now, now + 10_000, 512))
      const skippedIn = (projectId: string) =>
        Effect.map(
          Effect.orDie(server.sql`
            SELECT FROM campaign_recipients WHERE project_id = ${projectId} AND status = 'skipped'`),
          (rows) => rows.length
        )
      assert.deepStrictEqual([yield* skippedIn(busy.projectId), yield* skippedIn(other.projectId)], [2_500, 612])
    }
  )
})

const sendsPerMinute = 600
const gap = 60_000 / sendsPerMinute
const horizon = 300

const begin = Date.UTC(2026, 10, 20, 10)

// A server in the role `api`: only the test claims.
layer(TestServer.layer({}, "api"), { excludeTestServices: true })("claims of a campaign", (it) => {
  /** Creates a campaign; returns a function that claims at a time in milliseconds. */
  const claims = Effect.fnUntraced(function* (recipients: number) {
    const server = yield* TestServer
    yield* cancelAll(server)
    yield* campaignOf(server, { recipients, primary: nowhere, sendsPerMinute })
    return (at: number, slots = 512) =>
      Effect.map(
        Effect.orDie(releasedBy(server.sql, termsOf(server.sql, begin + at, begin + at + horizon, slots))),
        (claims) => claims.map((claim) => ({ ...claim, sendAt: at + claim.delayMillis }))
      )
  })
  const times = (claimed: ReadonlyArray<{ readonly sendAt: number }>) => claimed.map(({ sendAt }) => sendAt)

  it.effect("space sends evenly across claims", function* () {
    const claimAt = yield* claims(7)
    assert.deepStrictEqual(times(yield* claimAt(0)), [0, gap, 2 * gap, 3 * gap])
    assert.deepStrictEqual(times(yield* claimAt(50)), [])
    assert.deepStrictEqual(times(yield* claimAt(150)), [4 * gap])
    assert.deepStrictEqual(times(yield* claimAt(350)), [5 * gap, 6 * gap])
    assert.deepStrictEqual(times(yield* claimAt(1_000)), [])
  })

  it.effect("do not make up for a period in which nothing was sent", function* () {
    const claimAt = yield* claims(20)
    yield* claimAt(0)
    // One send may have been saved up.
    const [first = assert.fail("nothing is claimed"), ...others] = times(yield* claimAt(60_000))
    assert.isAtMost(others.length, horizon / gap + 1)
    assert.isAtLeast(first, 60_000 - gap)
    assert.deepStrictEqual(
      others,
      others.map((_, n) => first + (n + 1) * gap)
    )
  })

  it.effect("take each recipient and each send time once when they run concurrently", function* () {
    const claimAt = yield* claims(40)
    const all = []
    for (let at = 0; at < 3_000; at += 100) {
      const claimed = yield* Effect.all(
        Array.from({ length: 5 }, () => claimAt(at)),
        { concurrency: "unbounded" }
      )
      all.push(...claimed.flat())
    }
    assert.deepStrictEqual(
      times(all).sort((a, b) => a - b),
      Array.from({ length: all.length }, (_, n) => n * gap)
    )
    assert.strictEqual(new Set(all.map(({ messageId }) => messageId)).size, all.length)
    assert.isAtLeast(all.length, 30)
  })

  it.effect("skip a campaign whose recipients all wait for a retry, even with one slot", function* () {
    const claimAt = yield* claims(1)
    const { sql } = yield* TestServer
    assert.strictEqual((yield* claimAt(0)).length, 1)
    yield* Effect.orDie(sql`
      UPDATE campaign_recipients SET status = 'pending', available_at = ${new Date(begin + 60_000)}
      WHERE status = 'sending'`)
    yield* Effect.orDie(sql`
      UPDATE messages SET status = 'retrying', attempting = false, available_at = NULL WHERE attempting`)
    const plan = { recipients: 1, primary: nowhere, sendsPerMinute }
    const { projectId } = yield* campaignOf(yield* TestServer, plan)
    // This campaign is due later than the one whose recipient waits.
    yield* Effect.orDie(sql`
    UPDATE campaigns SET next_send_at = ${new Date(begin + 5_000)} WHERE project_id = ${projectId}`)
    assert.deepStrictEqual(times(yield* claimAt(5_000, 1)), [5_000])
    assert.deepStrictEqual(times(yield* claimAt(60_000, 1)), [60_000])
  })
})
