/**
 * The release of recipients: its data, its order, and the recipients that it skips; their states, and the outcomes of calls
 * with and without a fallback (contract §9, with the rules of §8).
 */
import { assert, it, layer } from "../support/Vitest.ts"
import { Effect, Struct } from "effect"
import { startsOf, stepOf } from "../../src/api/schema/States.ts"
import { advance } from "../../src/campaigns/Runner/Progress.ts"
import { open, recipients } from "../../src/campaigns/Runner/Recipients.ts"
import { release } from "../../src/campaigns/Runner/Release.ts"
import { byFailure, type Outcome } from "../../src/messaging/providers/Outcomes.ts"
import { outcomes } from "../../src/messaging/providers/Providers.ts"
import { timeOf } from "../support/Claims.ts"
import { TestServer } from "../support/TestServer.ts"
import { accepted, lease, nowhere, postponed, refused, scene, termsOf, unclear } from "./Runner.scene.support.ts"
import { addressOf, campaignOf, cancelAll, clientId, httpChannel, type Plan } from "./Runner.support.ts"

const hour = 3_600_000

it("the state machine of recipients starts in open states and reaches every other state", () => {
  const moves = Struct.keys(recipients.moves)
  assert.sameMembers([...new Set(moves.flatMap((move) => startsOf(recipients, move)))], [...open])
  assert.sameMembers([...new Set(moves.map((move) => stepOf(recipients, move).to))], [...recipients.states])
})

const toTheFallback = { fallback: nowhere }

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a running campaign", (it) => {
  /** Makes attempts with these outcomes, an hour apart; returns the states of the recipient after each. */
  const statesAfter = Effect.fnUntraced(function* (plan: Partial<Plan>, ...outcomes: ReadonlyArray<Outcome>) {
    const { claimed, record, recipientState } = yield* scene(plan)
    const states: Array<string> = []
    for (const [n, outcome] of outcomes.entries()) {
      yield* record(yield* claimed(n * hour), outcome, n * hour)
      states.push(yield* recipientState)
    }
    return states
  })

  it.effect("completes a recipient when a call is accepted", function* () {
    assert.deepStrictEqual(yield* statesAfter({}, accepted), ["sent primary 1"])
    assert.deepStrictEqual(yield* statesAfter({}, unclear, accepted), [
      "pending primary 1 in doubt",
      "sent primary 2 in doubt"
    ])
  })

  it.effect("moves a recipient to the fallback, if any, when a call is refused", function* () {
    assert.deepStrictEqual(yield* statesAfter({}, refused), ["failed primary 1"])
    assert.deepStrictEqual(yield* statesAfter(toTheFallback, refused, refused), [
      "pending fallback 0",
      "failed fallback 1"
    ])
  })

  it.effect(
    "repeats a call that was not processed up to five times, and then moves the recipient to the fallback",
    function* () {
      const busy = Array<Outcome>(5).fill(postponed)
      const waits = [1, 2, 3, 4].map((attempt) => `pending primary ${attempt}`)
      assert.deepStrictEqual(yield* statesAfter({ primaryType: "telegram" }, ...busy), [...waits, "failed primary 5"])
      assert.deepStrictEqual(yield* statesAfter(toTheFallback, ...busy), [...waits, "pending fallback 0"])
    }
  )

  it.effect("waits as long as the channel's config can't be opened, whatever the fallback", function* () {
    const unreadable = Array<Outcome>(7).fill(byFailure("config_unreadable"))
    const waits = unreadable.map((_, n) => `pending primary ${n + 1}`)
    assert.deepStrictEqual(yield* statesAfter(toTheFallback, ...unreadable, accepted), [...waits, "sent primary 8"])
  })

  it.effect("makes five calls, however many attempts end before their call", function* () {
    const [uncalled, busy] = [Array<Outcome>(4).fill(outcomes.circuitOpen), Array<Outcome>(4).fill(postponed)]
    const waits = [...uncalled, ...busy].map((_, n) => `pending primary ${n + 1}`)
    assert.deepStrictEqual(yield* statesAfter({}, ...uncalled, ...busy, postponed), [...waits, "failed primary 9"])
    const interrupted = yield* statesAfter({}, unclear, ...Array<Outcome>(4).fill(outcomes.notCalled), accepted)
    assert.strictEqual(interrupted.at(-1), "sent primary 6 in doubt")
  })

  it.effect("repeats a call of unknown outcome only when the provider has idempotency keys", function* () {
    assert.deepStrictEqual(yield* statesAfter(toTheFallback, ...Array<Outcome>(5).fill(unclear)), [
      ...[1, 2, 3, 4].map((attempt) => `pending primary ${attempt} in doubt`),
      "unknown primary 5 in doubt"
    ])
    assert.deepStrictEqual(yield* statesAfter({ ...toTheFallback, primaryType: "telegram" }, unclear), [
      "unknown primary 1 in doubt"
    ])
  })

  it.effect("moves no recipient to the fallback after an unknown outcome", function* () {
    assert.deepStrictEqual((yield* statesAfter(toTheFallback, unclear, refused))[1], "failed primary 2 in doubt")
    const busy = Array<Outcome>(4).fill(postponed)
    assert.deepStrictEqual((yield* statesAfter(toTheFallback, unclear, ...busy))[4], "unknown primary 5 in doubt")
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
