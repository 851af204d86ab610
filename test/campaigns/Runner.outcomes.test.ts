/**
 * The release of recipients: its data, its order, its rate over all replicas, and the recipients that it skips; their states, and the outcomes of calls
 * with and without a fallback (contract §9, with the rules of §8).
 */
import { assert, it, layer } from "../support/Vitest.ts"
import { Effect, Struct } from "effect"
import { startsOf, stepOf } from "../../src/api/schema/States.ts"
import { advance } from "../../src/campaigns/Runner/Progress.ts"
import { open, recipients } from "../../src/campaigns/Runner/Recipients.ts"
import { release } from "../../src/campaigns/Runner/Release.ts"
import { byFailure, type Outcome } from "../../src/messaging/providers/Outcomes.ts"
import { outcomes as known } from "../../src/messaging/providers/Providers.ts"
import { timeOf } from "../support/Claims.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { accepted, lease, nowhere, postponed, refused, scene, termsOf, unclear } from "./Runner.scene.support.ts"
import { addressOf, campaignOf, cancelAll, clientId, httpChannel, type Plan } from "./Runner.support.ts"

const hour = 3_600_000

it("the state machine of recipients starts in open states and reaches every other state", () => {
  const moves = Struct.keys(recipients.moves)
  assert.sameMembers([...new Set(moves.flatMap((move) => startsOf(recipients, move)))], [...open])
  assert.sameMembers([...new Set(moves.map((move) => stepOf(recipients, move).to))], [...recipients.states])
})

const toTheFallback = { fallback: nowhere }
const withoutKeys = { primaryType: "telegram" } as const
const times = (count: number, outcome: Outcome) => Array.from({ length: count }, () => outcome)
const waits = (count: number, more = "") => Array.from({ length: count }, (_, n) => `pending primary ${n + 1}${more}`)

/** Outcomes of calls, an hour apart, and the states of the recipient after each. */
const histories: ReadonlyArray<
  readonly [title: string, Partial<Plan>, outcomes: ReadonlyArray<Outcome>, states: ReadonlyArray<string>]
> = [
  ["completes a recipient when a call is accepted", {}, [accepted], ["sent primary 1"]],
  [
    "completes a recipient when a call is accepted after an unknown outcome",
    {},
    [unclear, accepted],
    [...waits(1, " in doubt"), "sent primary 2 in doubt"]
  ],
  ["fails a recipient when a call is refused and there is no fallback", {}, [refused], ["failed primary 1"]],
  [
    "moves a recipient to the fallback when a call is refused, and fails it when the fallback refuses, too",
    toTheFallback,
    [refused, refused],
    ["pending fallback 0", "failed fallback 1"]
  ],
  [
    "repeats a call that was not processed up to five times",
    withoutKeys,
    times(5, postponed),
    [...waits(4), "failed primary 5"]
  ],
  [
    "moves a recipient to the fallback after five calls that were not processed",
    toTheFallback,
    times(5, postponed),
    [...waits(4), "pending fallback 0"]
  ],
  [
    "waits as long as the channel's config can't be opened, whatever the fallback",
    toTheFallback,
    [...times(7, byFailure("config_unreadable")), accepted],
    [...waits(7), "sent primary 8"]
  ],
  [
    "makes five calls, however many attempts end before their call",
    {},
    [...times(4, known.circuitOpen), ...times(5, postponed)],
    [...waits(8), "failed primary 9"]
  ],
  [
    "makes a call after attempts that ended before their call, though an earlier outcome is unknown",
    {},
    [unclear, ...times(4, known.notCalled), accepted],
    [...waits(5, " in doubt"), "sent primary 6 in doubt"]
  ],
  [
    "repeats a call of unknown outcome up to five times when the provider has idempotency keys",
    toTheFallback,
    times(5, unclear),
    [...waits(4, " in doubt"), "unknown primary 5 in doubt"]
  ],
  [
    "repeats no call of unknown outcome when the provider has no idempotency keys",
    { ...toTheFallback, ...withoutKeys },
    [unclear],
    ["unknown primary 1 in doubt"]
  ],
  [
    "moves no recipient to the fallback that was refused after an unknown outcome",
    toTheFallback,
    [unclear, refused],
    [...waits(1, " in doubt"), "failed primary 2 in doubt"]
  ],
  [
    "moves no recipient to the fallback whose calls were not processed after an unknown outcome",
    toTheFallback,
    [unclear, ...times(4, postponed)],
    [...waits(4, " in doubt"), "unknown primary 5 in doubt"]
  ]
]

const client = (changes: Partial<NonNullable<Parts["clients"]>[number]>): Parts => ({
  clients: [{ id: clientId(0), displayName: "Ada", ...changes }]
})
const on = (...channels: ReadonlyArray<string>) =>
  client({ addresses: channels.map((channelId) => ({ channelId, address: "a" })) })
const revoked: Parts = { channels: [{ ...httpChannel("primary", nowhere), status: "revoked" }] }

/** Changes by a project file, and the state to which the next release moves the recipient. */
const changes: ReadonlyArray<readonly [what: string, state: string, Partial<Plan>, Parts]> = [
  ["withdrew consent", "skipped primary 0", {}, client({ marketingConsent: false })],
  ["was suppressed", "skipped primary 0", {}, client({ suppressed: true })],
  ["was archived", "skipped primary 0", {}, client({ status: "archived" })],
  ["was merged", "skipped primary 0", { recipients: 2 }, client({ mergedIntoClientId: clientId(1) })],
  ["has an address on the primary channel alone", "sending primary 1", toTheFallback, on("primary")],
  ["has an address on the fallback channel alone", "sending fallback 1", toTheFallback, on("fallback")],
  ["has no address", "failed primary 0", toTheFallback, on()],
  [
    "can be reached over the fallback, as the primary channel was revoked",
    "sending fallback 1",
    toTheFallback,
    revoked
  ],
  ["can't be reached, as the channel was revoked", "failed primary 0", {}, revoked]
]

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a running campaign", (it) => {
  for (const [title, plan, outcomes, states] of histories) {
    it.effect(title, function* () {
      const { claimed, record, recipientState } = yield* scene(plan)
      for (const [n, state] of states.entries()) {
        yield* record(yield* claimed(n * hour), outcomes[n] ?? accepted, n * hour)
        assert.strictEqual(yield* recipientState, state)
      }
    })
  }

  for (const [what, state, plan, parts] of changes) {
    it.effect(`leaves a recipient ${state} whose client ${what} after the freeze`, function* () {
      const { apply, claims, recipientState } = yield* scene(plan)
      yield* apply(parts)
      yield* claims(0)
      assert.strictEqual(yield* recipientState, state)
    })
  }

  it.effect("leaves an unknown outcome unknown when the client is suppressed before the next attempt", function* () {
    const { apply, claimed, claims, record, recipientState } = yield* scene()
    yield* record(yield* claimed(0), unclear)
    yield* apply(client({ suppressed: true }))
    assert.deepStrictEqual(yield* claims(lease), [])
    assert.strictEqual(yield* recipientState, "unknown primary 1 in doubt")
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

  it.effect("starts anew on the fallback when the primary channel is revoked between two attempts", function* () {
    const { apply, claimed, messages, record, recipientState } = yield* scene({ fallback: nowhere })
    yield* record(yield* claimed(0), postponed)
    assert.strictEqual(yield* recipientState, "pending primary 1")
    yield* apply({ channels: [{ ...httpChannel("primary", nowhere), status: "revoked" }] })
    const { channelId, number } = yield* claimed(lease)
    assert.deepStrictEqual([number, channelId], [1, "fallback"])
    // Nothing waits on the primary route any more.
    assert.deepStrictEqual(yield* messages, ["failed primary", "pending fallback"])
  })

  it.effect("skips a client who withdrew consent between two attempts, and ends the message", function* () {
    const { apply, claimed, claims, messages, record, recipientState } = yield* scene()
    yield* record(yield* claimed(0), postponed)
    yield* apply({ clients: [{ id: clientId(0), displayName: "Ada", marketingConsent: false }] })
    assert.deepStrictEqual(yield* claims(lease), [])
    assert.strictEqual(yield* recipientState, "skipped primary 1")
    assert.deepStrictEqual(yield* messages, ["failed primary"])
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
    for (const [table, ids] of [
      ["audiences", { id: "aud2" }],
      ["campaign_recipients", { audience_id: "aud2" }],
      ["campaigns", { id: "cmp2", audience_id: "aud2" }]
    ] as const) {
      yield* sql`
        INSERT INTO ${sql(table)} SELECT (jsonb_populate_record(${sql(table)}, ${JSON.stringify(ids)}::jsonb)).*
        FROM ${sql(table)} WHERE project_id = ${busy.projectId}`
    }
    const now = Date.now()
    const { projectId } = yield* campaignOf(server, { recipients: 2, primary: nowhere })
    yield* sql`UPDATE campaigns SET next_send_at = ${new Date(now - 1)} WHERE project_id = ${projectId}`
    const claims = yield* release(sql, termsOf(sql, now, now, 2))
    assert.include(
      claims.map((claim) => claim.projectId),
      projectId
    )
  })

  it.effect("separates projects whose ids are all the same", function* () {
    const server = yield* TestServer
    const { sql } = server
    yield* cancelAll(server)
    const plan = { recipients: 2, primary: nowhere, sendsPerMinute: 600 }
    const one = yield* campaignOf(server, plan)
    const other = yield* campaignOf(server, { ...plan, primaryType: "telegram" })
    const now = Date.now()
    const claims = yield* release(sql, termsOf(sql, now, now + 300, 10))
    const of = ({ projectId }: { readonly projectId: string }) =>
      claims
        .filter((claim) => claim.projectId === projectId)
        .map(({ delayMillis, providerType }) => `${providerType} after ${delayMillis} ms`)
    assert.deepStrictEqual(of(one), ["http after 0 ms", "http after 100 ms"])
    assert.deepStrictEqual(of(other), ["telegram after 0 ms", "telegram after 100 ms"])

    yield* sql`UPDATE campaign_recipients SET status = 'sent' WHERE project_id = ${one.projectId}`
    yield* advance(sql, timeOf(sql, new Date(now)))
    assert.deepStrictEqual([(yield* one.campaign).status, (yield* other.campaign).status], ["completed", "running"])
  })
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
        Effect.orDie(release(server.sql, termsOf(server.sql, begin + at, begin + at + horizon, slots))),
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

  it.effect("return no more recipients than free slots", function* () {
    const claimAt = yield* claims(10)
    assert.deepStrictEqual(times(yield* claimAt(0, 2)), [0, gap])
    assert.deepStrictEqual(times(yield* claimAt(0)), [2 * gap, 3 * gap])
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
