/** The audience that a campaign freezes: each rule by itself, their order, and what is told of it (contract §9). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { problemOf } from "../support/ContractAnswers.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { everybody, open, otherRoute, path, route } from "./Campaigns.support.ts"

type Client = NonNullable<Parts["clients"]>[number]

const none = {
  consent_not_granted: 0,
  suppressed: 0,
  merged: 0,
  filter_mismatch: 0,
  channel_unavailable: 0,
  duplicate: 0
}

/** Somebody who can be reached, each a second after the one before. */
const reachable = (id: string, more: Partial<Client> = {}): Client => ({
  id,
  displayName: `Name of ${id}`,
  marketingConsent: true,
  createdAt: new Date(Date.UTC(2026, 0, 1)).toISOString(),
  addresses: [{ channelId: "chat", address: `of ${id}` }],
  ...more
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a campaign's audience", (it) => {
  /** Freezes with a filter, and tells who is in it and why the others are not. */
  const frozen = Effect.fnUntraced(function* (parts: Parts, filter: object = {}) {
    const { audience, freeze, recipients } = yield* open(parts)
    yield* freeze("spring", filter)
    const { audience: numbers } = yield* audience("spring")
    return { recipients: yield* recipients("spring"), exclusions: numbers?.exclusions, numbers }
  })

  it.effect("is empty in a project without clients", () =>
    Effect.gen(function* () {
      const { exclusions, numbers, recipients } = yield* frozen({ clients: [] })
      assert.deepStrictEqual([numbers?.candidateCount, numbers?.eligibleCount, recipients], [0, 0, []])
      assert.deepStrictEqual(exclusions, none)
    })
  )

  it.effect("excludes each client for the first reason that applies", () =>
    Effect.gen(function* () {
      // Each lacks what those before it lack, but for the first reason.
      const unreachable = { addresses: [] }
      const suppressed = { ...unreachable, suppressed: true }
      const unwilling = { ...suppressed, marketingConsent: false }
      const mismatched = { ...unwilling, status: "archived" as const }
      const merged = { ...mismatched, mergedIntoClientId: "first" }
      const shared = [{ channelId: "chat", address: "of first" }]
      const clients = [
        reachable("first"),
        reachable("second", { addresses: shared }),
        ...[unreachable, suppressed, unwilling, mismatched, merged].map((more, index) => reachable(`c${index}`, more))
      ]
      const { exclusions, numbers, recipients } = yield* frozen({ clients }, { contactStatus: "active" })
      assert.deepStrictEqual(exclusions, {
        consent_not_granted: 1,
        suppressed: 1,
        merged: 1,
        filter_mismatch: 1,
        channel_unavailable: 1,
        duplicate: 1
      })
      assert.deepStrictEqual([numbers?.candidateCount, numbers?.eligibleCount, recipients], [7, 1, ["first"]])
    })
  )

  it.effect("is ordered by age, then by the bytes of ids", () =>
    Effect.gen(function* () {
      const at = (second: number) => ({ createdAt: new Date(Date.UTC(2026, 0, 1, 0, 0, second)).toISOString() })
      const ids = ["b", "\u{10000}", "\uffee", "B", "10", "9"]
      const clients = [reachable("young", at(2)), ...ids.map((id) => reachable(id, at(1))), reachable("old", at(0))]
      const { recipients } = yield* frozen({ clients })
      assert.deepStrictEqual(recipients, ["old", "10", "9", "B", "b", "\uffee", "\u{10000}", "young"])
    })
  )

  it.effect("contains each address once, and a duplicate reserves no address", () =>
    Effect.gen(function* () {
      const on = (...addresses: ReadonlyArray<string>) => ({
        addresses: addresses.map((name) => {
          const [channelId = "", address = ""] = name.split(" ")
          return { channelId, address }
        })
      })
      const { exclusions, recipients } = yield* frozen({
        clients: [
          // Takes nothing, as it is no candidate for long.
          reachable("a", { ...on("chat 1", "chat 9"), marketingConsent: false }),
          reachable("b", on("chat 1", "chat 2")),
          // A duplicate by one of its addresses leaves the other free.
          reachable("c", on("chat 2", "chat 3")),
          reachable("d", on("chat 3", "backup 1")),
          reachable("e", on("backup 1", "backup 4")),
          reachable("f", on("backup 4")),
          // The same address on another channel is another, and on one that is revoked none.
          reachable("g", on("backup 2", "gone 1")),
          reachable("h", on("chat 5", "gone 1")),
          reachable("i", on("gone 7")),
          reachable("j", on("chat 9"))
        ]
      })
      assert.deepStrictEqual(recipients, ["b", "d", "f", "g", "h", "j"])
      assert.deepStrictEqual(exclusions, { ...none, consent_not_granted: 1, duplicate: 2, channel_unavailable: 1 })
    })
  )

  it.effect("considers only channels of the wanted providers", () =>
    Effect.gen(function* () {
      const channels = [
        { id: "chat", providerType: "sandbox" as const, displayName: "Chat" },
        { id: "bot", providerType: "telegram" as const, displayName: "Bot", config: { token: "1:a" } }
      ]
      const both = [
        { channelId: "chat", address: "1" },
        { channelId: "bot", address: "1" }
      ]
      const clients = [
        reachable("a", { addresses: both }),
        reachable("b", { addresses: [{ channelId: "chat", address: "1" }] }),
        reachable("c", { addresses: [{ channelId: "bot", address: "2" }] })
      ]
      const of = (...providerTypes: ReadonlyArray<string>) => frozen({ channels, clients }, { providerTypes })
      assert.deepStrictEqual((yield* of()).recipients, ["a", "c"])
      const sandbox = yield* of("sandbox")
      assert.deepStrictEqual([sandbox.recipients, sandbox.exclusions?.channel_unavailable], [["a"], 1])
      assert.deepStrictEqual((yield* of("telegram")).recipients, ["a", "c"])
      assert.deepStrictEqual((yield* of("telegram", "sandbox", "pigeon")).recipients, ["a", "c"])
      assert.strictEqual((yield* of("pigeon")).exclusions?.channel_unavailable, 3)
    })
  )

  it.effect("takes its candidates from a segment, whatever their state", () =>
    Effect.gen(function* () {
      const clients = [
        reachable("a"),
        reachable("b", { status: "archived" }),
        reachable("c", { mergedIntoClientId: "a" }),
        reachable("d")
      ]
      const segments = [
        { id: "some", name: "Some", clientIds: ["c", "b", "a"] },
        { id: "empty", name: "Empty", clientIds: [] }
      ]
      const some = yield* frozen({ clients, segments }, { segmentId: "some", contactStatus: "active" })
      assert.deepStrictEqual(some.recipients, ["a"])
      assert.deepStrictEqual(some.exclusions, { ...none, merged: 1, filter_mismatch: 1 })
      assert.strictEqual((yield* frozen({ clients, segments }, { segmentId: "empty" })).numbers?.candidateCount, 0)

      yield* open({ segments: [{ id: "theirs", name: "Theirs", clientIds: [] }] })
      const { audience, command } = yield* open({ clients, segments })
      for (const segmentId of ["none", "theirs", "Some"]) {
        const filter = { ...everybody, segmentId }
        const answer = yield* command("spring", { operation: "freeze_audience", filter })
        assert.include(problemOf(answer, 404, "campaign_reference_not_found").detail, "segmentId")
      }
      assert.deepStrictEqual(yield* audience("spring"), { audience: null, version: 1 })
    })
  )

  it.effect("contains clients of its own project alone, even when ids are equal", () =>
    Effect.gen(function* () {
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
  )

  it.effect("is the last one frozen, and does not change afterwards", () =>
    Effect.gen(function* () {
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
      // The first is left to the pruner, and so is the second when the campaign goes.
      const kept = Effect.map(
        server.sql`SELECT FROM audiences WHERE project_id = ${projectId} AND abandoned_at IS NULL`,
        (rows) => rows.length
      )
      assert.strictEqual(yield* kept, 1)
      yield* done("spring", { operation: "delete", expectedVersion: 4 })
      assert.strictEqual(yield* kept, 0)
    })
  )

  it.effect("shows no client in any answer", () =>
    Effect.gen(function* () {
      const { freeze, server, token } = yield* open({ clients: [reachable("secret-id"), reachable("other-id")] })
      yield* freeze("spring")
      const { text } = yield* server.send({ path: `${path}/spring/audience`, token })
      assert.include(text, '"eligibleCount":2')
      for (const told of ["secret-id", "other-id", "Name of", "aud_", "position"]) assert.notInclude(text, told)
    })
  )

  it.effect("puts recipients on the primary route", () =>
    Effect.gen(function* () {
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
  )
})
