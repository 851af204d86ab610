/** The audience that a campaign freezes (contract §9). Its rules are tested in `Campaigns.audience.properties`. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { problemOf } from "../support/ContractAnswers.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { everybody, open, otherRoute, route } from "./Campaigns.support.ts"

type Client = NonNullable<Parts["clients"]>[number]

const none = {
  consent_not_granted: 0,
  suppressed: 0,
  merged: 0,
  filter_mismatch: 0,
  channel_unavailable: 0,
  duplicate: 0
}

/** Returns a client with consent and an address. */
const reachable = (id: string, more: Partial<Client> = {}): Client => ({
  id,
  displayName: `Name of ${id}`,
  marketingConsent: true,
  createdAt: new Date(Date.UTC(2026, 0, 1)).toISOString(),
  addresses: [{ channelId: "chat", address: `of ${id}` }],
  ...more
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a campaign's audience", (it) => {
  /** Freezes with a filter; returns the recipients, and the reason for each client that was left out. */
  const frozen = Effect.fnUntraced(function* (parts: Parts, filter: object = {}) {
    const { audience, freeze, recipients } = yield* open(parts)
    yield* freeze("spring", filter)
    const { audience: numbers } = yield* audience("spring")
    return { recipients: yield* recipients("spring"), exclusions: numbers?.exclusions, numbers }
  })

  it.effect("is not frozen from a segment that the project lacks", function* () {
    yield* open({ segments: [{ id: "theirs", name: "Theirs", clientIds: [] }] })
    const { audience, command } = yield* open({ segments: [{ id: "some", name: "Some", clientIds: [] }] })
    for (const segmentId of ["none", "theirs", "Some"]) {
      const filter = { ...everybody, segmentId }
      const answer = yield* command("spring", { operation: "freeze_audience", filter })
      assert.include(problemOf(answer, 404, "campaign_reference_not_found").detail, "segmentId")
    }
    assert.deepStrictEqual(yield* audience("spring"), { audience: null, version: 1 })
  })

  it.effect("contains clients of its own project alone, even when ids are equal", function* () {
    const pipelines = [{ id: "p", name: "P", stages: [{ id: "new", name: "New" }] }]
    const deals = [{ id: "d", title: "D", clientId: "a", stageId: "new" }]
    const project = { defaultPipelineId: "p" }
    const chat = { id: "chat", providerType: "sandbox" as const, displayName: "Chat" }
    const clients = ["a", "b"].map((id) => reachable(id))
    const segments = (...clientIds: ReadonlyArray<string>) => [{ id: "s", name: "S", clientIds }]
    yield* open({ channels: [chat], project, pipelines, deals, clients, segments: segments("a", "b") })
    const ours = { project, pipelines, clients, segments: segments("a") }
    const revoked = yield* frozen({ ...ours, channels: [{ ...chat, status: "revoked" }] })
    assert.deepStrictEqual(revoked.exclusions, { ...none, channel_unavailable: 2 })
    const inStage = yield* frozen({ ...ours, channels: [chat] }, { stageIds: ["new"] })
    assert.deepStrictEqual(inStage.exclusions, { ...none, filter_mismatch: 2 })
    assert.deepStrictEqual((yield* frozen({ ...ours, channels: [chat] }, { segmentId: "s" })).recipients, ["a"])
  })

  it.effect("is the last one frozen, and does not change afterwards", function* () {
    const { apply, audience, done, freeze, recipients, server, projectId } = yield* open()
    yield* freeze("spring")
    const first = yield* audience("spring")
    assert.deepInclude(first.audience, { candidateCount: 2, eligibleCount: 1 })
    yield* apply({
      clients: [{ id: "ada", displayName: "Ada", marketingConsent: false, status: "archived" }, reachable("new")]
    })
    yield* done("spring", { operation: "set_fallback_route", ...otherRoute })
    assert.deepStrictEqual(yield* audience("spring"), { ...first, version: 3 })
    assert.deepStrictEqual(yield* recipients("spring"), ["ada"])

    yield* freeze("spring", { contactStatus: "active" })
    const second = yield* audience("spring")
    assert.deepInclude(second.audience, { candidateCount: 3, eligibleCount: 1 })
    assert.strictEqual(second.version, 4)
    assert.deepStrictEqual(yield* recipients("spring"), ["new"])
    // The pruner removes the first now, and the second once the campaign is deleted.
    const kept = Effect.map(
      server.sql`SELECT FROM audiences WHERE project_id = ${projectId} AND abandoned_at IS NULL`,
      (rows) => rows.length
    )
    assert.strictEqual(yield* kept, 1)
    yield* done("spring", { operation: "delete", expectedVersion: 4 })
    assert.strictEqual(yield* kept, 0)
  })

  it.effect("puts recipients on the primary route", function* () {
    const { done, freeze, projectId, server } = yield* open()
    yield* done("spring", { operation: "set_primary_route", ...route })
    yield* freeze("spring")
    const rows = yield* server.sql`
      SELECT position, client_id, status, route, attempts, available_at, in_doubt
      FROM campaign_recipients WHERE project_id = ${projectId}`
    assert.deepStrictEqual(rows, [
      {
        position: 0,
        client_id: "ada",
        status: "pending",
        route: "primary",
        attempts: 0,
        available_at: null,
        in_doubt: false
      }
    ])
  })
})
