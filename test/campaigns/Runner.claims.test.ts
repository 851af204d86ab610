/** The claim statement of the runner: its data, its order, and the recipients that it skips (contract §9). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { advance } from "../../src/campaigns/Runner/Progress.ts"
import { claim } from "../../src/campaigns/Runner/Claims.ts"
import { limitsOf, timeOf } from "../support/Claims.ts"
import { TestServer } from "../support/TestServer.ts"
import { idempotent, lease, nowhere, postponed, refused, resultOf, scene } from "./Runner.scene.support.ts"
import { campaignOf, cancelAll, clientId, httpChannel } from "./Runner.support.ts"

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a campaign claim", (it) => {
  it.effect("returns the text of the route's template version and the first of several addresses", () =>
    Effect.gen(function* () {
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
      const { address, template } = yield* claimed(0)
      assert.deepStrictEqual([address, template], ["second", "Version 2"])
    })
  )

  it.effect("returns no further route for a recipient on the fallback", () =>
    Effect.gen(function* () {
      const { claimed, record, recipientState } = yield* scene({ fallback: nowhere })
      const first = yield* claimed(0)
      assert.isTrue(first.hasFallback)
      yield* record(resultOf(first, refused))
      const second = yield* claimed(1)
      assert.isFalse(second.hasFallback)
      yield* record(resultOf(second, refused))
      assert.strictEqual(yield* recipientState, "failed fallback 1")
    })
  )

  it.effect("restarts the attempt count on the fallback when the primary channel is revoked between two attempts", () =>
    Effect.gen(function* () {
      const { apply, claimed, record, recipientState } = yield* scene({ fallback: nowhere })
      yield* record(resultOf(yield* claimed(0), postponed))
      assert.strictEqual(yield* recipientState, "pending primary 1")
      yield* apply({ channels: [{ ...httpChannel("primary", nowhere), status: "revoked" }] })
      const { attempt, route } = yield* claimed(lease)
      assert.deepStrictEqual([attempt, route], [1, "fallback"])
    })
  )

  it.effect("returns recipients that are due for a retry before recipients without an attempt", () =>
    Effect.gen(function* () {
      const { claimed, projectId, sql } = yield* scene({ recipients: 3 })
      yield* sql`
        UPDATE campaign_recipients SET available_at = '2026-01-01', attempts = 1
        WHERE project_id = ${projectId} AND position = 2`
      const { attempt, position } = yield* claimed(0)
      assert.deepStrictEqual([position, attempt], [2, 2])
      assert.strictEqual((yield* claimed(1)).position, 0)
    })
  )

  it.effect("skips archived clients when the frozen filter selected active clients alone", () =>
    Effect.gen(function* () {
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
  )

  it.effect("separates projects whose ids are all the same", () =>
    Effect.gen(function* () {
      const server = yield* TestServer
      const { sql } = server
      yield* cancelAll(server)
      const plan = { recipients: 2, primary: nowhere, sendsPerMinute: 600 }
      const one = yield* campaignOf(server, plan)
      const other = yield* campaignOf(server, { ...plan, primaryType: "telegram" })
      const now = new Date()
      const until = new Date(now.getTime() + 300)
      const times = { now: timeOf(sql, now), until: timeOf(sql, until), leaseMillis: lease }
      const claims = yield* claim(sql, { ...times, workerId: null, limits: limitsOf(10), idempotent })
      const of = ({ projectId }: { readonly projectId: string }) =>
        claims
          .filter((claim) => claim.projectId === projectId)
          .map(({ providerType, sendAt }) => `${providerType} after ${sendAt.getTime() - now.getTime()} ms`)
      assert.deepStrictEqual(of(one), ["http after 0 ms", "http after 100 ms"])
      assert.deepStrictEqual(of(other), ["telegram after 0 ms", "telegram after 100 ms"])

      yield* sql`UPDATE campaign_recipients SET status = 'sent' WHERE project_id = ${one.projectId}`
      yield* advance(sql, timeOf(sql, now))
      assert.deepStrictEqual([(yield* one.campaign).status, (yield* other.campaign).status], ["completed", "running"])
    })
  )
})
