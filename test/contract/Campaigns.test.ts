/** The effects of each command on a campaign, its conflicts, and what `Walk.fields` does not reach of its body (contract §2, §5, §9). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { campaignOf } from "../support/CampaignAnswers.ts"
import { codeOf, faultsOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { everybody, open, otherRoute, path, route } from "./Campaigns.support.ts"
import { atOnce } from "./Clients.support.ts"

const schedule = (scheduledForLocal: string | null, sendsPerMinute = 60) => ({
  operation: "schedule",
  scheduledForLocal,
  sendsPerMinute
})

const inZone = (timeZone: string) => open({ project: { timeZone } })

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a campaign command", (it) => {
  it.effect("checks the state before the version, and the version before everything else", function* () {
    const { command, done, force, ready } = yield* open()
    yield* ready("spring")
    yield* done("spring", schedule("2999-01-01T00:00"))
    const refused = (json: object) =>
      Effect.map(command("spring", json), (answer) => problemOf(answer, 409, "campaign_state_conflict"))
    yield* refused({ operation: "delete", expectedVersion: 99 })
    yield* refused({ operation: "set_primary_route", templateId: "none", templateVersion: 1, channelId: "none" })
    yield* refused({ operation: "freeze_audience", filter: { ...everybody, segmentId: "none" } })
    yield* force("spring", "running")
    yield* refused(schedule("2000-01-01T00:00"))
    yield* refused({ operation: "rename", name: "X", expectedVersion: 99 })
  })

  // `Campaigns.states` binds existing templates and senders.
  it.effect("refuses templates and senders that the project lacks, and names them", function* () {
    const { command, read } = yield* open()
    yield* open({
      templates: [{ id: "theirs", version: 1, name: "T", body: "T" }],
      channels: [{ id: "theirs", providerType: "sandbox", displayName: "T" }],
      clients: []
    })
    const template = (templateId: string, templateVersion: number) => ({ templateId, templateVersion })
    const before = yield* read("spring")
    for (const [operations, names, members] of [
      ["bind_template", template("theirs", 1), ["templateId"]],
      ["bind_template", template("welcome", 3), ["templateVersion"]],
      ["bind_template", template("reminder", 2_147_483_648), ["templateVersion"]],
      ["bind_template", template("reminder", Number.MAX_SAFE_INTEGER), ["templateVersion"]],
      ["bind_sender", { channelId: "theirs" }, ["channelId"]],
      ["set_primary_route set_fallback_route", { ...route, templateId: "none" }, ["templateId"]],
      ["set_primary_route set_fallback_route", { ...route, templateVersion: 3 }, ["templateVersion"]],
      ["set_primary_route set_fallback_route", { ...route, channelId: "none" }, ["channelId"]],
      [
        "set_primary_route set_fallback_route",
        { ...route, templateId: "none", channelId: "none" },
        ["templateId", "channelId"]
      ],
      // Missing records are reported before revoked ones.
      ["set_primary_route set_fallback_route", { ...route, templateId: "none", channelId: "gone" }, ["templateId"]]
    ] as const) {
      for (const operation of operations.split(" ")) {
        const answer = yield* command("spring", { operation, ...names })
        const { detail } = problemOf(answer, 404, "campaign_reference_not_found")
        const named = ["templateId", "templateVersion", "channelId"].filter((member) => detail?.includes(member))
        assert.deepStrictEqual(named, [...members], `${operation} ${detail}`)
      }
    }
    assert.deepStrictEqual(yield* read("spring"), before)
  })

  it.effect("refuses a revoked channel, even one that is bound already", function* () {
    const { apply, command, done, read } = yield* open()
    const revoked = Effect.fnUntraced(function* (operation: string, names: object) {
      const answer = yield* command("spring", { operation, ...names })
      assert.include(problemOf(answer, 409, "campaign_state_conflict").detail, "channelId")
    })
    yield* revoked("bind_sender", { channelId: "gone" })
    for (const operation of ["set_primary_route", "set_fallback_route"]) {
      yield* revoked(operation, { ...route, channelId: "gone" })
    }
    yield* done("spring", { operation: "set_primary_route", ...route })
    yield* apply({ channels: [{ id: "chat", providerType: "sandbox", displayName: "Chat", status: "revoked" }] })
    yield* revoked("bind_sender", { channelId: "chat" })
    yield* revoked("set_primary_route", route)
    assert.strictEqual((yield* read("spring")).version, 2)
    yield* done("spring", { operation: "bind_template", templateId: "welcome", templateVersion: 1 })
    assert.deepStrictEqual((yield* read("spring")).primary, ["welcome", "1", "chat"])
  })

  it.effect("changes the campaign unless it sets what the campaign has", function* () {
    const { done, read } = yield* open()
    const long = "𝒳".repeat(160)
    const steps: ReadonlyArray<readonly [changed: boolean, body: Readonly<Record<string, unknown>>]> = [
      [false, { operation: "rename", name: "Spring" }],
      [true, { operation: "rename", name: long }],
      [false, { operation: "remove_fallback_route" }],
      [true, { operation: "set_primary_route", ...route }],
      [false, { operation: "set_primary_route", ...route }],
      [false, { operation: "bind_sender", channelId: "chat" }],
      [false, { operation: "bind_template", templateId: "welcome", templateVersion: 2 }],
      [true, { operation: "set_fallback_route", ...route }],
      [false, { operation: "set_fallback_route", ...route }],
      [true, { operation: "set_fallback_route", ...route, templateVersion: 1 }],
      [true, { operation: "remove_fallback_route" }],
      [false, { operation: "remove_fallback_route" }],
      [true, { operation: "freeze_audience", filter: everybody }],
      [true, schedule("2030-01-01T00:00", 60)],
      [false, schedule("2030-01-01T00:00", 60)],
      [true, schedule("2030-01-01T00:00", 60_000)],
      [true, schedule("2030-01-01T00:01", 60_000)],
      [false, schedule("2030-01-01T00:01", 60_000)],
      [true, schedule("2030-01-01T00:01", 1)]
    ]
    let version = 1
    for (const [changed, body] of steps) {
      const json = body["operation"] === "rename" ? { ...body, expectedVersion: version } : body
      version += changed ? 1 : 0
      assert.deepInclude(yield* done("spring", json), { changed, version }, JSON.stringify(json))
      assert.strictEqual((yield* read("spring")).version, version)
    }
    assert.deepInclude(yield* read("spring"), { name: long, status: "scheduled", sendsPerMinute: 1 })
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

  it.effect("uses the project's current time zone, whatever the cached credential has", function* () {
    const { apply, audience, command, done, freeze, read, server, token } = yield* inZone("Europe/Berlin")
    const get = (id: string) => Effect.map(server.send({ path: `${path}/${id}`, token }), campaignOf)
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
    assert.deepInclude(yield* get("spring"), {
      scheduledForLocal: "2030-07-15T10:00",
      timeZone: "UTC",
      scheduledAt: "2030-07-15T10:00:00.000Z"
    })
    // One that is scheduled for now has the zone, too.
    const { resourceId: copy } = yield* done("spring", { operation: "duplicate" })
    assert.deepInclude(yield* get(copy), { timeZone: null, scheduledAt: null })
    yield* freeze(copy, everybody)
    yield* done(copy, schedule(null))
    assert.deepInclude(yield* get(copy), { timeZone: "Pacific/Auckland", scheduledForLocal: null })
    assert.isString((yield* get(copy)).scheduledAt)
    // An earlier version has stored no zone.
    yield* Effect.orDie(server.sql`UPDATE campaigns SET time_zone = NULL WHERE id = 'spring'`)
    assert.strictEqual((yield* get("spring")).timeZone, "Pacific/Auckland")
    // The current zone decides: the time is skipped in Berlin, not in UTC.
    yield* apply({ project: { timeZone: "Europe/Berlin" } })
    problemOf(yield* command("spring", schedule("2030-03-31T02:30")), 400, "schedule_invalid")
    yield* apply({ project: { timeZone: "UTC" } })
    yield* done("spring", schedule("2030-03-31T02:30"))
  })
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the body of a campaign command", (it) => {
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
    const many = yield* faults({ ...everybody, stageIds: Array(1_000).fill("") })
    assert.include(many, "body/filter/stageIds/0")
    // No member that follows hundreds of others is missing.
    const unknown = Object.fromEntries(Array.from({ length: 900 }, (_, index) => [`m${index}`, 0]))
    const { errors: surplus = {} } = problemOf(
      yield* command("spring", { ...unknown, operation: "freeze_audience", filter: { ...unknown, ...everybody } }),
      400,
      "validation_failed"
    )
    assert.notInclude(JSON.stringify(surplus), "is required")
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

// `Campaigns.audience` tests whom it contains.
layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a campaign's audience", (it) => {
  it.effect("has at most 500,000 candidates", function* () {
    const { command, projectId, server } = yield* open({ segments: [{ id: "large", name: "Large", clientIds: [] }] })
    const freeze = () =>
      command("spring", { operation: "freeze_audience", filter: { ...everybody, segmentId: "large" } })
    for (const [count, status] of [
      [500_000, 200],
      [500_001, 409]
    ] as const) {
      yield* server.sql`UPDATE segments SET contact_count = ${count}::int WHERE project_id = ${projectId}`
      const answer = yield* freeze()
      if (status === 200) receiptOf(answer, 200)
      else assert.include(problemOf(answer, 409, "campaign_state_conflict").detail, "500000")
    }
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

  it.effect("is the last one frozen, and does not change afterwards", function* () {
    const { apply, audience, done, freeze, kept, recipients } = yield* open()
    yield* freeze("spring")
    const first = yield* audience("spring")
    assert.deepInclude(first.audience, { candidateCount: 2, eligibleCount: 1 })
    yield* apply({
      clients: [
        { id: "ada", displayName: "Ada", marketingConsent: false, status: "archived" },
        { id: "new", displayName: "New", marketingConsent: true, addresses: [{ channelId: "chat", address: "new" }] }
      ]
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
    assert.strictEqual(yield* kept, 1)
    yield* done("spring", { operation: "delete", expectedVersion: 4 })
    assert.strictEqual(yield* kept, 0)
  })
})

const freezing = { operation: "freeze_audience", filter: everybody }

/** A thousand clients, half of them duplicates by address, so that a freeze takes some time. */
const thousand = Array.from({ length: 1_000 }, (_, index) => ({
  id: `c${index}`,
  displayName: "C",
  marketingConsent: true,
  addresses: [{ channelId: "chat", address: `${Math.floor(index / 2)}` }]
}))

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a campaign under concurrent commands", (it) => {
  it.effect("keeps one audience of several freezes, and none when the campaign is deleted", function* () {
    for (let round = 0; round < 4; round++) {
      const { audience, command, kept, recipients } = yield* open({ clients: thousand })
      const receipts = (yield* atOnce(8, () => command("spring", freezing))).map((answer) => receiptOf(answer, 200))
      assert.deepStrictEqual(
        receipts.map(({ version }) => version).toSorted((one, other) => one - other),
        [2, 3, 4, 5, 6, 7, 8, 9]
      )
      assert.strictEqual((yield* audience("spring")).audience?.eligibleCount, 500)
      assert.strictEqual((yield* recipients("spring")).length, 500)
      assert.strictEqual(yield* kept, 1)

      const answers = yield* atOnce(9, (index) =>
        command("spring", index % 2 === 0 ? freezing : { operation: "delete", expectedVersion: 9 + (index >> 1) })
      )
      const deleted = answers.filter((answer, index) => index % 2 === 1 && answer.status === 200).length
      assert.isAtMost(deleted, 1)
      for (const answer of answers) {
        assert.include([undefined, "version_conflict", "campaign_not_found"], codeOf(answer), answer.text)
      }
      assert.strictEqual(yield* kept, 1 - deleted)
    }
  })

  it.effect("delays no other request while its audience is frozen", function* () {
    const { sql } = yield* TestServer
    const calls = yield* open()
    const other = yield* open()
    const { resourceId: copy } = yield* calls.done("spring", { operation: "duplicate" })
    yield* sql`
      CREATE FUNCTION wait_for_the_test() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          WHILE NEW.project_id = TG_ARGV[0] AND NOT pg_try_advisory_xact_lock(4711) LOOP
            PERFORM pg_sleep(0.01);
          END LOOP;
          RETURN NEW;
        END
      $$`
    yield* sql`
      CREATE TRIGGER wait_for_the_test BEFORE INSERT ON campaign_recipients FOR EACH ROW
      EXECUTE FUNCTION wait_for_the_test(${sql.literal(`'${calls.projectId}'`)})`
    // Within a transaction, statistics are cached after the first read.
    const isWaiting = Effect.andThen(
      sql`SELECT pg_stat_clear_snapshot()`,
      Effect.map(
        sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`,
        (rows) => rows.length === 1
      )
    )
    const freeze = yield* Effect.gen(function* () {
      yield* sql`SELECT pg_advisory_xact_lock(4711)`
      const freeze = yield* Effect.forkScoped(calls.command("spring", freezing))
      yield* Effect.repeat(isWaiting, { until: (waiting) => waiting })
      // Another project, a read and another campaign are not delayed.
      receiptOf(yield* other.command("spring", freezing), 200)
      assert.strictEqual((yield* calls.audience("spring")).version, 1)
      receiptOf(yield* calls.command(copy, { operation: "bind_sender", channelId: "chat" }), 200)
      // Longer than a request may take otherwise.
      yield* Effect.sleep("4500 millis")
      // The trigger's loop is not always in `pg_sleep`.
      yield* Effect.repeat(isWaiting, { until: (waiting) => waiting })
      assert.isUndefined(freeze.pollUnsafe())
      return freeze
    }).pipe(sql.withTransaction)
    receiptOf(yield* Fiber.join(freeze), 200)
    assert.strictEqual((yield* calls.audience("spring")).audience?.eligibleCount, 1)
    yield* sql`DROP FUNCTION wait_for_the_test CASCADE`
  })
})
