/** Campaign commands: readiness and times of `schedule`, and what `Walk.fields` does not reach of their bodies (contract §2, §5, §9). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { operations } from "../../src/api/campaigns/States.ts"
import { faultsOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { callsOf, everybody, open, route } from "./Campaigns.support.ts"
import { commands } from "./Fields.ts"

const schedule = (scheduledForLocal: string | null, sendsPerMinute = 60) => ({
  operation: "schedule",
  scheduledForLocal,
  sendsPerMinute
})

const inZone = (timeZone: string) => open({ project: { timeZone } })

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the campaign command schedule", (it) => {
  it.effect("answers campaign_not_ready with everything that is missing", function* () {
    const { command, done, freeze } = yield* open()
    const missing = Effect.fnUntraced(function* (parts: ReadonlyArray<string>) {
      const answer = yield* command("spring", schedule(null))
      assert.deepStrictEqual(problemOf(answer, 409, "campaign_not_ready").missing, parts)
    })
    yield* missing(["primary_route", "audience"])
    yield* done("spring", { operation: "bind_template", templateId: "welcome", templateVersion: 1 })
    yield* missing(["primary_route", "audience"])
    yield* freeze("spring", { requiredTags: ["nobody has it"] })
    yield* missing(["primary_route", "eligible_recipients"])
    yield* done("spring", { operation: "bind_sender", channelId: "chat" })
    yield* missing(["eligible_recipients"])
    yield* freeze("spring")
    yield* done("spring", schedule(null))
    // A copy has the routes, but no audience.
    const copy = yield* done("spring", { operation: "duplicate" })
    assert.deepStrictEqual(
      problemOf(yield* command(copy.resourceId, schedule(null)), 409, "campaign_not_ready").missing,
      ["audience"]
    )
  })

  it.effect("checks the time before the readiness", function* () {
    const { command, read } = yield* open()
    problemOf(yield* command("spring", schedule("2000-01-01T00:00")), 400, "schedule_invalid")
    problemOf(yield* command("spring", schedule("2999-01-01T00:00")), 409, "campaign_not_ready")
    assert.deepInclude(yield* read("spring"), { status: "draft", version: 1 })
  })

  it.effect("refuses times that are past, skipped or not in the calendar, with a reason", function* () {
    const { command, read, ready } = yield* inZone("Europe/Berlin")
    yield* ready("spring")
    const before = yield* read("spring")
    for (const [local, word] of [
      ["2020-05-05T10:00", "past"],
      ["2998-02-29T10:00", "calendar"],
      ["2030-03-31T02:30", "skip"]
    ] as const) {
      const { detail } = problemOf(yield* command("spring", schedule(local)), 400, "schedule_invalid")
      assert.include(detail, word, local)
    }
    assert.deepStrictEqual(yield* read("spring"), before)
  })

  // `campaigns/Schedule` tests the instants of local times.
  it.effect("reads local times in the project's zone, in every year that they can have", function* () {
    const { done, read, ready } = yield* inZone("America/New_York")
    yield* ready("spring")
    yield* done("spring", schedule("9999-12-31T23:59"))
    assert.strictEqual((yield* read("spring")).scheduledFor?.toISOString(), "+010000-01-01T04:59:00.000Z")
  })

  it.effect("reschedules, and changes nothing when time and rate are the same", function* () {
    const { done, read, ready } = yield* inZone("Europe/Berlin")
    yield* ready("spring")
    const steps = [
      [schedule("2030-01-01T00:00", 60), true],
      [schedule("2030-01-01T00:00", 60), false],
      [schedule("2030-01-01T00:00", 60_000), true],
      [schedule("2030-01-01T00:01", 60_000), true],
      [schedule("2030-01-01T00:01", 60_000), false],
      [schedule("2030-01-01T00:01", 1), true]
    ] as const
    let version = (yield* read("spring")).version
    for (const [body, changed] of steps) {
      version += changed ? 1 : 0
      assert.deepInclude(yield* done("spring", body), { changed, version })
    }
    assert.deepInclude(yield* read("spring"), { status: "scheduled", sendsPerMinute: 1, version })
  })

  it.effect("uses the project's current time zone, whatever the cached credential has", function* () {
    const { apply, audience, command, done, freeze, read } = yield* inZone("Europe/Berlin")
    yield* done("spring", { operation: "set_primary_route", ...route })
    yield* freeze("spring", everybody)
    // A credential is cached for up to a second, so each command finds the previous zone in it.
    for (const [timeZone, instant] of [
      ["America/New_York", "2030-07-15T14:00:00.000Z"],
      ["Asia/Tokyo", "2030-07-15T01:00:00.000Z"],
      ["UTC", "2030-07-15T10:00:00.000Z"]
    ] as const) {
      yield* audience("spring")
      yield* apply({ project: { timeZone } })
      yield* done("spring", schedule("2030-07-15T10:00"))
      assert.strictEqual((yield* read("spring")).scheduledFor?.toISOString(), instant)
    }
    // The scheduled campaign is unchanged.
    yield* apply({ project: { timeZone: "Pacific/Auckland" } })
    assert.strictEqual((yield* read("spring")).scheduledFor?.toISOString(), "2030-07-15T10:00:00.000Z")
    // The current zone decides: the time is skipped in Berlin, not in UTC.
    yield* apply({ project: { timeZone: "Europe/Berlin" } })
    problemOf(yield* command("spring", schedule("2030-03-31T02:30")), 400, "schedule_invalid")
    yield* apply({ project: { timeZone: "UTC" } })
    yield* done("spring", schedule("2030-03-31T02:30"))
  })

  it.effect("replays its outcome after the time is past and the zone has changed", function* () {
    const server = yield* TestServer
    const calls = yield* inZone("UTC")
    yield* calls.ready("spring")
    const body = schedule("2030-01-01T00:00")
    const first = yield* calls.command("spring", body, "scheduled-once")
    assert.strictEqual(first.status, 200)
    yield* calls.apply({ project: { timeZone: "Europe/Berlin" } })
    yield* calls.force("spring", "completed")
    // Another token of the project.
    const other = callsOf(server, { projectId: calls.projectId, token: yield* server.issue(calls.projectId) })
    const again = yield* other.command("spring", body, "scheduled-once")
    assert.deepStrictEqual(
      [again.status, again.text, again.headers["etag"], again.headers["idempotent-replayed"]],
      [200, first.text, first.headers["etag"], "true"]
    )
  })
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the body of a campaign command", (it) => {
  it.effect("reports only the operation when that is unknown", function* () {
    const { command } = yield* open()
    assert.deepStrictEqual(Object.keys(commands).toSorted(), operations.toSorted())
    for (const operation of ["", "Rename", "rename ", "toString", "__proto__", 1, null, ["rename"], {}]) {
      for (const rest of [{}, { expectedVersion: "x", surprise: 1, filter: 5 }]) {
        const { errors } = problemOf(yield* command("spring", { ...rest, operation }), 400, "validation_failed")
        assert.deepStrictEqual(Object.keys(errors ?? {}), ["body/operation"], JSON.stringify(operation))
        assert.strictEqual(errors?.["body/operation"]?.length, 1)
        for (const known of operations) assert.include(errors?.["body/operation"]?.[0], known)
      }
    }
    for (const body of [{}, { expectedVersion: "x", name: 1, surprise: 1 }]) {
      const { errors } = problemOf(yield* command("spring", body), 400, "validation_failed")
      assert.deepStrictEqual(errors, { "body/operation": ["is required"] })
    }
    for (const body of [[], "rename", 1, null, true, [{ operation: "pause" }]]) {
      const { errors } = problemOf(yield* command("spring", body), 400, "validation_failed")
      assert.deepStrictEqual(errors, { body: ["must be an object"] })
    }
  })

  it.effect("is refused at its locations inside a filter", function* () {
    const { command } = yield* open()
    const faults = (filter: object, more: object = {}) =>
      Effect.map(command("spring", { operation: "freeze_audience", filter, ...more }), faultsOf)
    assert.deepStrictEqual(yield* faults({}), [
      "body/filter/contactStatus",
      "body/filter/providerTypes",
      "body/filter/requiredTags",
      "body/filter/stageIds"
    ])
    assert.deepStrictEqual(
      yield* faults({ ...everybody, surprise: 1, segmentID: "x", "a/b~c": 1 }, { name: "X" }),
      ["body/filter/a~1b~0c", "body/filter/segmentID", "body/filter/surprise", "body/name"].toSorted()
    )
    const { errors = {} } = problemOf(
      yield* command("spring", { operation: "freeze_audience", filter: { surprise: 1 } }),
      400,
      "validation_failed"
    )
    const [, known = ""] = /the known members are (.*)$/.exec(errors["body/filter/surprise"]?.join() ?? "") ?? []
    assert.includeMembers(known.split(", "), Object.keys(everybody))
    // Too many faults for all of them to be reported.
    const many = yield* faults({ ...everybody, stageIds: Array(60_000).fill("") })
    assert.include(many, "body/filter/stageIds/0")
    // The operation follows 2,000 other members.
    const names = Object.fromEntries(Array.from({ length: 2_000 }, (_, index) => [`m${index}`, 0]))
    const answer = yield* command("spring", { ...names, operation: "pause" })
    assert.include(faultsOf(answer), "body/m0")
    assert.notInclude(faultsOf(answer), "body/operation")
  })

  it.effect("is recognised under its key when defaults are written out", function* () {
    const { command } = yield* open()
    const freeze = (filter: object) => command("spring", { operation: "freeze_audience", filter }, "one-key")
    const first = receiptOf(yield* freeze(everybody), 200)
    const spelt = {
      readyStampOfferIds: [],
      minimumLoyaltyBalance: null,
      loyaltyLevelIds: [],
      loyaltyCardRequired: false,
      segmentId: null,
      ...everybody
    }
    assert.deepStrictEqual(receiptOf(yield* freeze(spelt), 200), { ...first, replayed: true })
    problemOf(yield* freeze({ ...spelt, minimumLoyaltyBalance: 0 }), 409, "idempotency_key_reused")
  })
})
