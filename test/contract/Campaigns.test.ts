/** The effects of each command on a campaign, and its conflicts (contract §9). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { operations } from "../../src/api/campaigns/States.ts"
import { problemOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { everybody, open, otherRoute, route } from "./Campaigns.support.ts"
import { commands } from "./Fields.ts"

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a campaign command", (it) => {
  it.effect("answers campaign_not_found for a missing, foreign or deleted campaign", function* () {
    const { command, done } = yield* open()
    yield* open({ campaigns: [{ id: "theirs", name: "Theirs" }] })
    yield* done("spring", { operation: "delete", expectedVersion: 1 })
    for (const id of ["none", "theirs", "spring", "audience-segments", "__proto__"]) {
      for (const operation of operations) {
        problemOf(yield* command(id, { operation, ...commands[operation] }), 404, "campaign_not_found")
      }
    }
  })

  it.effect("renames, and changes nothing when the name is the same", function* () {
    const { audience, done, read } = yield* open()
    const rename = (name: string, expectedVersion: number) => ({ operation: "rename", name, expectedVersion })
    assert.deepInclude(yield* done("spring", rename("Spring", 1)), { changed: false, version: 1 })
    assert.deepInclude(yield* done("spring", rename("Summer", 1)), { changed: true, version: 2 })
    assert.strictEqual((yield* audience("spring")).version, 2)
    const long = "𝒳".repeat(160)
    yield* done("spring", rename(long, 2))
    assert.strictEqual((yield* read("spring")).name, long)
  })

  it.effect("checks the state before the version, and the version before everything else", function* () {
    const { command, done, force, ready } = yield* open()
    yield* ready("spring")
    yield* done("spring", { operation: "schedule", scheduledForLocal: "2999-01-01T00:00", sendsPerMinute: 1 })
    problemOf(yield* command("spring", { operation: "delete", expectedVersion: 99 }), 409, "campaign_state_conflict")
    const unknown = { templateId: "none", templateVersion: 1, channelId: "none" }
    problemOf(yield* command("spring", { operation: "set_primary_route", ...unknown }), 409, "campaign_state_conflict")
    const filter = { ...everybody, segmentId: "none" }
    problemOf(yield* command("spring", { operation: "freeze_audience", filter }), 409, "campaign_state_conflict")
    yield* force("spring", "running")
    const past = { operation: "schedule", scheduledForLocal: "2000-01-01T00:00", sendsPerMinute: 1 }
    problemOf(yield* command("spring", past), 409, "campaign_state_conflict")
    problemOf(
      yield* command("spring", { operation: "rename", name: "X", expectedVersion: 99 }),
      409,
      "campaign_state_conflict"
    )
  })

  it.effect("binds existing templates and senders, and refuses others", function* () {
    const { command, done, read } = yield* open()
    yield* open({
      templates: [{ id: "theirs", version: 1, name: "T", body: "T" }],
      channels: [{ id: "theirs", providerType: "sandbox", displayName: "T" }],
      clients: []
    })
    const refused = Effect.fnUntraced(function* (operation: string, names: object, members: ReadonlyArray<string>) {
      const answer = yield* command("spring", { operation, ...names })
      const { detail } = problemOf(answer, 404, "campaign_reference_not_found")
      for (const member of ["templateId", "templateVersion", "channelId"]) {
        assert.strictEqual(detail?.includes(member), members.includes(member), `${operation} ${detail}`)
      }
    })
    yield* refused("bind_template", { templateId: "theirs", templateVersion: 1 }, ["templateId"])
    yield* refused("bind_template", { templateId: "welcome", templateVersion: 3 }, ["templateVersion"])
    yield* refused("bind_template", { templateId: "reminder", templateVersion: 2_147_483_648 }, ["templateVersion"])
    yield* refused("bind_template", { templateId: "reminder", templateVersion: Number.MAX_SAFE_INTEGER }, [
      "templateVersion"
    ])
    yield* refused("bind_sender", { channelId: "theirs" }, ["channelId"])
    for (const operation of ["set_primary_route", "set_fallback_route"]) {
      yield* refused(operation, { ...route, templateId: "none" }, ["templateId"])
      yield* refused(operation, { ...route, templateVersion: 3 }, ["templateVersion"])
      yield* refused(operation, { ...route, channelId: "none" }, ["channelId"])
      yield* refused(operation, { ...route, templateId: "none", channelId: "none" }, ["templateId", "channelId"])
      // Missing records are reported before revoked ones.
      yield* refused(operation, { ...route, templateId: "none", channelId: "gone" }, ["templateId"])
    }
    assert.deepInclude(yield* read("spring"), {
      version: 1,
      primary: [null, null, null],
      fallback: [null, null, null]
    })

    yield* done("spring", { operation: "bind_template", templateId: "welcome", templateVersion: 1 })
    assert.deepStrictEqual((yield* read("spring")).primary, ["welcome", "1", null])
    yield* done("spring", { operation: "bind_sender", channelId: "backup" })
    assert.deepStrictEqual((yield* read("spring")).primary, ["welcome", "1", "backup"])
    yield* done("spring", { operation: "bind_template", templateId: "reminder", templateVersion: 1 })
    assert.deepStrictEqual((yield* read("spring")).primary, ["reminder", "1", "backup"])
  })

  it.effect("refuses a revoked channel, even one that is bound already", function* () {
    const { apply, command, done, read } = yield* open()
    const revoked = Effect.fnUntraced(function* (body: object) {
      const { detail } = problemOf(yield* command("spring", body), 409, "campaign_state_conflict")
      assert.include(detail, "channelId")
    })
    yield* revoked({ operation: "bind_sender", channelId: "gone" })
    yield* revoked({ operation: "set_primary_route", ...route, channelId: "gone" })
    yield* revoked({ operation: "set_fallback_route", ...route, channelId: "gone" })
    yield* done("spring", { operation: "set_primary_route", ...route })
    yield* apply({ channels: [{ id: "chat", providerType: "sandbox", displayName: "Chat", status: "revoked" }] })
    yield* revoked({ operation: "bind_sender", channelId: "chat" })
    yield* revoked({ operation: "set_primary_route", ...route })
    const before = yield* read("spring")
    yield* done("spring", { operation: "bind_template", templateId: "welcome", templateVersion: 1 })
    assert.deepStrictEqual((yield* read("spring")).primary, ["welcome", "1", "chat"])
    assert.strictEqual(before.version, 2)
  })

  it.effect("changes nothing when the routes are the same", function* () {
    const { done, read } = yield* open()
    const steps: ReadonlyArray<readonly [body: object, changed: boolean]> = [
      [{ operation: "remove_fallback_route" }, false],
      [{ operation: "set_primary_route", ...route }, true],
      [{ operation: "set_primary_route", ...route }, false],
      [{ operation: "bind_sender", channelId: "chat" }, false],
      [{ operation: "bind_template", templateId: "welcome", templateVersion: 2 }, false],
      [{ operation: "set_fallback_route", ...route }, true],
      [{ operation: "set_fallback_route", ...route }, false],
      [{ operation: "set_fallback_route", ...route, templateVersion: 1 }, true],
      [{ operation: "remove_fallback_route" }, true],
      [{ operation: "remove_fallback_route" }, false]
    ]
    let version = 1
    for (const [body, changed] of steps) {
      version += changed ? 1 : 0
      assert.deepInclude(yield* done("spring", body), { changed, version }, JSON.stringify(body))
      const campaign = yield* read("spring")
      assert.strictEqual(campaign.version, version)
    }
  })

  // `Campaigns.states` compares a copy with its original.
  it.effect("duplicates under a given name or that of the original, and the copy changes alone", function* () {
    const { done, read } = yield* open()
    yield* done("spring", { operation: "set_primary_route", ...route })
    yield* done("spring", { operation: "set_fallback_route", ...otherRoute })
    const copy = yield* done("spring", { operation: "duplicate" })
    const named = yield* done(copy.resourceId, { operation: "duplicate", name: "Summer" })
    assert.strictEqual((yield* read(named.resourceId)).name, "Summer")
    const again = yield* done(copy.resourceId, { operation: "duplicate" })
    assert.strictEqual((yield* read(again.resourceId)).name, "Spring copy copy")
    // Cut to 160 whole characters.
    for (const length of [154, 155, 156, 159, 160]) {
      const name = "𝒳".repeat(length)
      const original = yield* done("spring", { operation: "duplicate", name })
      const { resourceId } = yield* done(original.resourceId, { operation: "duplicate" })
      assert.strictEqual((yield* read(resourceId)).name, [...`${name} copy`].slice(0, 160).join(""))
    }
    // A change of the copy leaves the original unchanged.
    yield* done(copy.resourceId, { operation: "remove_fallback_route" })
    assert.deepStrictEqual((yield* read("spring")).fallback, ["reminder", "1", "backup"])
  })
})
