/**
 * Outbound webhooks: the URLs that a configure accepts as far as the text decides, signing secrets, and retries at the same time or of
 * others (contract §5, §10). `faults/Secrets` tests where secrets must not appear.
 */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { problemOf, receiptOf, secretOf, unversionedReceiptOf } from "../support/ContractAnswers.ts"
import { secretKey, startServer, TestServer } from "../support/TestServer.ts"
import { atOnce } from "./Clients.support.ts"
import { newKey } from "./Requests.ts"
import { api, assertConflict, callsOf, created, open, parked, stageChanged, updated } from "./Webhooks.support.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { enable } from "../support/Events.ts"

layer(api, { excludeTestServices: true })("a webhook", (it) => {
  it.effect(
    "checks the idempotency key before the endpoint's address, which may not be allowed any more",
    function* () {
      const webhooks = yield* open()
      const before = yield* startServer(
        { DATABASE_URL: webhooks.server.databaseUrl, WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8" },
        "api"
      )
      const key = newKey()
      const change = { endpointUrl: "https://127.0.0.1/" }
      const { signingSecret: _, ...receipt } = secretOf(yield* webhooks.but({ server: before }).configure(change, key))
      assert.deepStrictEqual(receiptOf(yield* webhooks.configure(change, key), 200), { ...receipt, replayed: true })
      for (const endpointUrl of ["https://127.0.0.2/", "http://shop.example.com/"]) {
        problemOf(yield* webhooks.configure({ endpointUrl }, key), 409, "idempotency_key_reused")
      }
    }
  )
})

// `EndpointUrl` tests every spelling.

const urls = [
  {
    allowed: "",
    taken: ["HTTPS://ÜMLAUT.example/日本?token=a%23b", "https://nothing.invalid/"],
    refused: ["http://shop.example.com/hooks", "https://[::ffff:10.0.0.1]/"]
  },
  { allowed: "127.0.0.0/8, fd00::/8", taken: ["http://127.0.0.1:8080/"], refused: ["http://8.8.8.8/"] }
]

for (const { allowed, refused, taken } of urls) {
  const server = TestServer.layer({ WEBHOOK_ALLOWED_NETWORKS: allowed }, "api")

  layer(server, { excludeTestServices: true })(`a webhook's URL with the allowed networks "${allowed}"`, (it) => {
    it.effect("is stored unchanged if it is public or allowed, else nothing changes", function* () {
      const { configure, configured, found, read } = yield* open()
      const refuse = (expectedVersion: number | null) =>
        Effect.forEach(refused, (endpointUrl) =>
          Effect.map(configure({ endpointUrl, expectedVersion }), (answer) =>
            assert.isString(problemOf(answer, 400, "webhook_reference_invalid").detail, endpointUrl)
          )
        )
      yield* refuse(null)
      assert.isUndefined(yield* read)
      for (const [index, endpointUrl] of taken.entries()) {
        const { version } = yield* configured({ endpointUrl, expectedVersion: index === 0 ? null : index })
        assert.deepInclude(yield* found, { endpointUrl, version })
      }
      const before = yield* found
      yield* refuse(taken.length)
      assert.deepStrictEqual(yield* found, before)
    })
  })
}

layer(api, { excludeTestServices: true })("a signing secret", (it) => {
  it.effect("retires 24 hours after the rotation, or after WEBHOOK_SECRET_OVERLAP, and is then deleted", function* () {
    const webhooks = yield* open()
    const { projectId, server, token } = webhooks
    const quick = yield* startServer({ DATABASE_URL: server.databaseUrl, WEBHOOK_SECRET_OVERLAP: "250ms" }, "api")
    yield* webhooks.configured()
    const start = Date.now()
    yield* webhooks.rotated(1)
    const assertRetires = (at: Date | null | undefined, millis: number) => {
      const after = (at?.getTime() ?? 0) - start
      assert.isTrue(after >= millis && after < millis + 10_000, `${after}`)
    }
    const [second, first, ...others] = yield* webhooks.secrets
    assert.deepStrictEqual(others, [])
    assert.isNull(second?.retiresAt)
    assertRetires(first?.retiresAt, 86_400_000)

    yield* callsOf(quick, { projectId, token }, "ins").rotated(2)
    const retires = (yield* webhooks.secrets).map(({ retiresAt }) => retiresAt)
    assert.strictEqual(retires.length, 3)
    assert.isNull(retires[0])
    assertRetires(retires[1], 250)
    // The previous secret keeps its time of retirement.
    assert.deepStrictEqual(retires[2], first?.retiresAt)
    yield* Effect.sleep(300)
    yield* webhooks.rotated(3)
    assert.strictEqual((yield* webhooks.secrets).length, 3)
  })

  it.effect("is opened before anything is changed, so that a key which can't open it changes nothing", function* () {
    const other = Buffer.from(secretKey, "base64").fill(9).toString("base64")
    const { databaseUrl } = yield* startServer({}, "api")
    const under = (env: Record<string, string>) => startServer({ DATABASE_URL: databaseUrl, ...env }, "api")
    const old = yield* under({})
    // Started before anything is stored: afterwards its key would be refused.
    const otherKey = yield* under({ SECRET_KEY: other })
    const seeded = yield* old.seed({ installations: [{ id: "ins", name: "Shop" }] })
    const webhooks = callsOf(old, seeded, "ins")
    const { signingSecret } = yield* webhooks.configured()
    const before = [yield* webhooks.found, yield* webhooks.secrets]
    const key = newKey()
    const change = { expectedVersion: 1, eventTypes: [created] }
    problemOf(yield* webhooks.but({ server: otherKey }).configure(change, key), 500, "internal")
    assert.deepStrictEqual([yield* webhooks.found, yield* webhooks.secrets], before)
    assertConflict(yield* webhooks.but({ server: otherKey }).configure({ expectedVersion: 7 }), 1)

    // The failed request left its idempotency key unused, so a server that has the old secret key answers the secret.
    const successor = webhooks.but({ server: yield* under({ SECRET_KEY: other, SECRET_KEY_PREVIOUS: secretKey }) })
    const answered = { resourceId: "ins", changed: true, version: 2, signingSecret }
    assert.deepStrictEqual(yield* successor.configured(change, key), answered)
    const repeated = yield* webhooks.but({ server: otherKey }).configure(change, key)
    assert.deepInclude(receiptOf(repeated, 200), { version: 2, replayed: true })

    // A new secret is sealed under the key of the process that made it.
    const next = yield* successor.rotated(2)
    problemOf(yield* webhooks.configure({ expectedVersion: 3 }), 500, "internal")
    const after = yield* webhooks.but({ server: otherKey }).configured({ expectedVersion: 3 })
    assert.strictEqual(after.signingSecret, next)
  })

  it.effect("is sealed for its installation and does not open for another", function* () {
    const webhooks = yield* open("ins", "other")
    const other = webhooks.but({ installationId: "other" })
    const neighbour = yield* open()
    const { signingSecret } = yield* webhooks.configured()
    for (const victim of [other, neighbour]) {
      yield* victim.configured()
      const [stolen = assert.fail()] = yield* webhooks.secrets
      const installationId = victim === other ? "other" : "ins"
      yield* Effect.orDie(webhooks.server.sql`
        UPDATE webhook_secrets SET sealed = ${stolen.sealed}
        WHERE project_id = ${victim.projectId} AND installation_id = ${installationId}`)
      const before = [yield* victim.found, yield* victim.secrets]
      const answer = yield* victim.configure({ expectedVersion: 1, eventTypes: [created] })
      problemOf(answer, 500, "internal")
      assert.notInclude(answer.text, signingSecret)
      assert.deepStrictEqual([yield* victim.found, yield* victim.secrets], before)
    }
    assert.strictEqual((yield* webhooks.configured({ expectedVersion: 1 })).signingSecret, signingSecret)
  })
})

/** Creates a webhook for created and updated deals, and a dead delivery for a created deal. */
const openDead = Effect.fnUntraced(function* (...others: ReadonlyArray<string>) {
  const webhooks = yield* open("ins", ...others)
  yield* webhooks.configured()
  yield* webhooks.deliver("dead")
  return webhooks
})

layer(api, { excludeTestServices: true })("a dead delivery", (it) => {
  it.effect("is retried by one of 20 concurrent retries", function* () {
    const { deliver, retry } = yield* openDead()
    for (const id of ["one", "two", "three"]) {
      yield* deliver(id)
      const answers = yield* atOnce(20, () => retry(id))
      const [winner, ...others] = answers.toSorted((left, right) => left.status - right.status)
      unversionedReceiptOf(winner ?? assert.fail())
      for (const other of others) problemOf(other, 409, "webhook_state_conflict")
    }
  })

  it.effect("is retried by at most 20 commands in all", function* () {
    const { deliver, deliveries, projectId, retry, server } = yield* openDead()
    yield* deliver("twenty")
    for (let n = 0; n < 20; n++) {
      unversionedReceiptOf(yield* retry("twenty"))
      yield* Effect.orDie(server.sql`
        UPDATE deliveries SET status = 'dead', available_at = NULL, finished_at = now()
        WHERE project_id = ${projectId} AND id = 'twenty'`)
    }
    const before = yield* deliveries()
    const { detail } = problemOf(yield* retry("twenty"), 409, "webhook_state_conflict")
    assert.include(detail, "at most 20 times")
    assert.deepStrictEqual(yield* deliveries(), before)
    unversionedReceiptOf(yield* retry("dead"))
  })

  it.effect("is not found under another installation", function* () {
    const webhooks = yield* openDead("other", "bare")
    const other = webhooks.but({ installationId: "other" })
    const bare = webhooks.but({ installationId: "bare" })
    yield* other.configured()
    yield* other.deliver("others")
    const neighbour = yield* openDead()
    yield* neighbour.deliver("theirs")
    const before = yield* webhooks.delivery("dead")
    for (const answer of [
      yield* webhooks.retry("others"),
      yield* other.retry("dead"),
      // An installation without a webhook has no deliveries.
      yield* bare.retry("dead"),
      yield* bare.retry("nothing"),
      yield* webhooks.retry("theirs"),
      yield* webhooks.retry("nothing"),
      yield* webhooks.retry("evt dead")
    ]) {
      problemOf(answer, 400, "webhook_reference_invalid")
    }
    problemOf(yield* webhooks.but({ installationId: "nothing" }).retry("dead"), 404, "installation_not_found")
    // Of two deliveries with one id, that of the token's project is retried.
    unversionedReceiptOf(yield* neighbour.retry("dead"))
    assert.deepStrictEqual(yield* webhooks.delivery("dead"), before)
    assert.strictEqual((yield* neighbour.delivery("dead")).status, "pending")
  })
})

const endpointUrl = "https://a.example/"
const refusedUrl = "http://shop.example.com/"

layer(api, { excludeTestServices: true })("a command on a webhook", (it) => {
  it.effect(
    "configures it with its secret and a healthy endpoint, rotates the secret, or changes nothing",
    function* () {
      const webhooks = yield* open()
      const state = Effect.all([webhooks.read, webhooks.secrets, webhooks.deliveries()])
      problemOf(yield* webhooks.rotate(1), 409, "webhook_state_conflict")
      problemOf(yield* webhooks.retry("nothing"), 400, "webhook_reference_invalid")
      assertConflict(yield* webhooks.configure({ expectedVersion: 99 }), null)
      assert.deepStrictEqual(yield* state, [undefined, [], []])

      let secret = ""
      let version = 0
      for (const [change, changed, before] of [
        [{ eventTypes: [updated, created, updated] }, true],
        [{ eventTypes: [created, updated] }, false],
        [{ eventTypes: [created, updated] }, false, webhooks.setHealth(parked)],
        [{ eventTypes: [created, updated] }, true, webhooks.disable],
        [{ eventTypes: [stageChanged] }, true, webhooks.setHealth(parked)],
        [{ endpointUrl: "https://b.example/?a=1", eventTypes: [stageChanged] }, true]
      ] as const) {
        yield* before ?? Effect.void
        const key = newKey()
        const configured = { endpointUrl, ...change }
        const sent = { ...configured, expectedVersion: version === 0 ? null : version }
        const { signingSecret, ...receipt } = yield* webhooks.configured(sent, key)
        if (secret === "") yield* webhooks.deliver("dlv")
        else assert.strictEqual(signingSecret, secret)
        secret = signingSecret
        version += changed ? 1 : 0
        assert.deepStrictEqual(receipt, { resourceId: "ins", changed, version })
        const row = yield* webhooks.found
        const eventTypes = [...new Set<string>(change.eventTypes)].toSorted()
        const expected = { ...configured, eventTypes, enabled: true, version }
        assert.deepStrictEqual({ ...row, eventTypes: row.eventTypes.toSorted() }, expected)
        const { failedProbes, failures, parkedUntil } = yield* webhooks.health
        assert.deepStrictEqual([failures, failedProbes, parkedUntil], [0, 0, null])

        // The order of the types and their number have no meaning, and a refused command leaves its key free.
        const turned = { ...sent, eventTypes: [...change.eventTypes, ...change.eventTypes].toReversed() }
        const after = yield* state
        assert.deepStrictEqual(receiptOf(yield* webhooks.configure(turned, key), 200), { ...receipt, replayed: true })
        const next = newKey()
        assertConflict(yield* webhooks.configure({ ...sent, expectedVersion: 99 }, next), version)
        problemOf(yield* webhooks.configure({ endpointUrl: refusedUrl }, next), 400, "webhook_reference_invalid")
        assertConflict(yield* webhooks.rotate(99, next), version)
        assert.deepStrictEqual(yield* state, after)

        const rotated = secretOf(yield* webhooks.rotate(version, next))
        assert.notStrictEqual(rotated.signingSecret, secret)
        secret = rotated.signingSecret
        version += 1
        assert.deepStrictEqual(rotated, { resourceId: "ins", changed: true, version, signingSecret: secret })
        assert.deepStrictEqual(yield* webhooks.found, { ...row, version })
        const again = receiptOf(yield* webhooks.rotate(version - 1, next), 200)
        assert.deepStrictEqual(again, { resourceId: "ins", changed: true, version, replayed: true })
      }
    }
  )

  it.effect("sends a dead delivery at once if the webhook would get its event, and no other", function* () {
    const webhooks = yield* open()
    yield* webhooks.configured({ eventTypes: [created] })
    yield* webhooks.setHealth(parked)
    const retryable = "Only a dead delivery can be retried: this one is "
    const disabled = "The webhook is disabled. Enable it first: configuring it again does so."
    for (const [status, type, whileEnabled, whileDisabled] of [
      ["dead", created, undefined, disabled],
      ["dead", updated, "The webhook no longer subscribes to the delivery's event type.", disabled],
      ["pending", created, `${retryable}sent at its nextAttemptAt.`, disabled],
      ["delivering", created, `${retryable}sent at its nextAttemptAt.`, disabled],
      ["delivered", created, `${retryable}delivered.`, `${retryable}delivered.`]
    ] as const) {
      const id = `${status} ${type}`
      yield* webhooks.deliver(id, status, type)
      const before = yield* webhooks.deliveries()
      const key = newKey()
      yield* webhooks.disable
      const refused = (answer: Answer, detail: string) =>
        assert.include(problemOf(answer, 409, "webhook_state_conflict").detail, detail)
      refused(yield* webhooks.retry(id, key), whileDisabled)
      yield* enable(webhooks.server.sql, webhooks.projectId, "ins", true)
      const start = Date.now()
      const answer = yield* webhooks.retry(id, key)
      if (whileEnabled !== undefined) {
        refused(answer, whileEnabled)
        assert.deepStrictEqual(yield* webhooks.deliveries(), before)
        continue
      }
      const { replayed: _, ...receipt } = unversionedReceiptOf(answer)
      assert.deepStrictEqual(receipt, { resourceId: id, changed: true, version: null })
      const delivery = yield* webhooks.delivery(id)
      assert.deepInclude(delivery, { status: "pending", attempts: 11, retries: 0 })
      const due = delivery.availableAt?.getTime() ?? 0
      assert.isTrue(due >= start && due <= Date.now(), `${due}`)
      const again = unversionedReceiptOf(yield* webhooks.retry(id, key))
      assert.deepStrictEqual(again, { ...receipt, replayed: true })
      assert.deepStrictEqual(yield* webhooks.delivery(id), delivery)
    }
    assert.deepInclude(yield* webhooks.health, { failures: 12, failedProbes: 2 })
  })
})
