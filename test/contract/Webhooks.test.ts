/**
 * Outbound webhooks: effects of a configure, the URLs that it accepts as far as the text decides, signing secrets, and retries of dead
 * deliveries (contract §5, §10). `faults/Secrets` tests where secrets must not appear.
 */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { problemOf, receiptOf, secretOf, unversionedReceiptOf } from "../support/ContractAnswers.ts"
import { secretKey, startServer, TestServer } from "../support/TestServer.ts"
import { atOnce } from "./Clients.support.ts"
import { newKey } from "./Requests.ts"
import { api, assertConflict, callsOf, created, open, stageChanged, updated, usual } from "./Webhooks.support.ts"

const url = "https://other.example.com/"

/** The health of an endpoint that is parked until long after the test. */
const parked = "failures = 12, failed_probes = 2, parked_until = now() + interval '1 hour'"

layer(api, { excludeTestServices: true })("a webhook", (it) => {
  it.effect(
    "keeps its secret when it is configured, and is changed unless the configuration is the current one",
    function* () {
      const { configured, found } = yield* open()
      const { signingSecret } = yield* configured()
      let version = 1
      for (const [change, changed] of [
        [{}, false],
        [{ endpointUrl: url }, true],
        [{ endpointUrl: `${url}?a=1` }, true],
        [{ endpointUrl: url, eventTypes: [stageChanged] }, true],
        [{ endpointUrl: url, eventTypes: [stageChanged] }, false],
        [{}, true]
      ] as const) {
        const receipt = yield* configured({ ...change, expectedVersion: version })
        version += changed ? 1 : 0
        assert.deepStrictEqual(receipt, { resourceId: "ins", changed, version, signingSecret })
        const { expectedVersion: _, ...row } = { ...usual, ...change, enabled: true, version }
        assert.deepStrictEqual(yield* found, row)
      }
    }
  )

  it.effect("has a set of event types without order and duplicates", function* () {
    const { configure, configured, found } = yield* open()
    yield* configured({ eventTypes: [updated, created, updated] })
    const before = yield* found
    assert.sameMembers([...before.eventTypes], [created, updated])
    for (const eventTypes of [
      [created, updated],
      [updated, created],
      [created, created, updated, created],
      [...Array<string>(19).fill(updated), created]
    ]) {
      assert.deepInclude(yield* configured({ eventTypes, expectedVersion: 1 }), { changed: false, version: 1 })
    }
    const key = newKey()
    yield* configured({ eventTypes: [created, updated], expectedVersion: 1 }, key)
    const again = yield* configure({ eventTypes: [updated, created, updated], expectedVersion: 1 }, key)
    assert.isTrue(receiptOf(again, 200).replayed)
    assert.deepStrictEqual(yield* found, before)
    for (const [index, eventTypes] of [[created], [updated], [updated, stageChanged]].entries()) {
      assert.deepInclude(yield* configured({ eventTypes, expectedVersion: index + 1 }), { changed: true })
      assert.sameMembers([...(yield* found).eventTypes], eventTypes)
    }
  })

  it.effect("is enabled by a configure with its current configuration", function* () {
    const { configure, configured, disable, found } = yield* open()
    const { signingSecret } = yield* configured()
    yield* disable
    assertConflict(yield* configure({ expectedVersion: 2 }), 1)
    assert.isFalse((yield* found).enabled)
    const receipt = yield* configured({ expectedVersion: 1 })
    assert.deepStrictEqual(receipt, { resourceId: "ins", changed: true, version: 2, signingSecret })
    assert.deepInclude(yield* found, { enabled: true, version: 2 })
    yield* disable
    assert.deepInclude(yield* configured({ endpointUrl: url, expectedVersion: 2 }), { changed: true, version: 3 })
    assert.isTrue((yield* found).enabled)
  })

  it.effect("unparks its endpoint with each successful configure", function* () {
    const { configure, configured, health, setHealth } = yield* open()
    const healthy = { inFlight: 0, failures: 0, failedProbes: 0, parkedUntil: null }
    yield* configured()
    assert.deepStrictEqual(yield* health, healthy)
    for (const change of [{ expectedVersion: 1 }, { expectedVersion: 1, endpointUrl: url }]) {
      yield* setHealth(parked)
      const unhealthy = yield* health
      for (const refused of [{}, { expectedVersion: 7 }, { expectedVersion: 1, endpointUrl: "http://a.example/" }]) {
        assert.oneOf((yield* configure(refused)).status, [400, 409])
      }
      assert.deepStrictEqual(yield* health, unhealthy)
      const key = newKey()
      secretOf(yield* configure(change, key))
      assert.deepStrictEqual(yield* health, healthy)
      // A repeated request has no effect either.
      yield* setHealth(parked)
      const before = yield* health
      assert.isTrue(receiptOf(yield* configure(change, key), 200).replayed)
      assert.deepStrictEqual(yield* health, before)
    }
  })

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
    taken: [
      "https://shop.example.com:8443/hooks?token=a%23b",
      "HTTPS://ÜMLAUT.example/日本",
      "https://nothing.invalid/",
      "https://[64:ff9b::8.8.8.8]/"
    ],
    refused: [
      "http://shop.example.com/hooks",
      "mailto:shop@example.com",
      "https://user:secret@shop.example.com/",
      "https://shop.example.com/#hooks",
      "https://%31%32%37.0.0.1:8443/",
      "https://169.254.169.254/hooks",
      "https://[::ffff:10.0.0.1]/"
    ]
  },
  {
    allowed: "127.0.0.0/8, fd00::/8",
    taken: ["http://127.0.0.1:8080/", "https://0x7f000001/", "http://[fd12::1]/hooks"],
    refused: ["http://8.8.8.8/", "https://10.0.0.1/", "http://user@127.0.0.1/"]
  }
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
  it.effect("is replaced by each rotation", function* () {
    const { configured, found, rotate } = yield* open()
    const { signingSecret } = yield* configured()
    const { version: _, ...webhook } = yield* found
    const secrets = [signingSecret]
    for (let version = 1; version <= 4; version++) {
      const { signingSecret, ...receipt } = secretOf(yield* rotate(version))
      assert.deepStrictEqual(receipt, { resourceId: "ins", changed: true, version: version + 1 })
      secrets.push(signingSecret)
      assert.deepStrictEqual(yield* found, { ...webhook, version: version + 1 })
      const again = yield* configured({ expectedVersion: version + 1 })
      assert.deepStrictEqual(again, { ...receipt, changed: false, signingSecret })
    }
    assert.strictEqual(new Set(secrets).size, 5)
  })

  it.effect("is rotated without a change of the webhook's state and its endpoint's health", function* () {
    const { configured, disable, found, health, rotated, setHealth } = yield* open()
    yield* configured()
    yield* disable
    yield* setHealth(parked)
    const before = yield* health
    yield* rotated(1)
    assert.deepInclude(yield* found, { enabled: false, version: 2 })
    assert.deepStrictEqual(yield* health, before)
  })

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
  it.effect("is due immediately after a retry, with a new schedule and continued attempt numbers", function* () {
    const { delivery, retry } = yield* openDead()
    const before = Date.now()
    const answer = yield* retry("dead")
    assert.deepStrictEqual(unversionedReceiptOf(answer), {
      resourceId: "dead",
      changed: true,
      version: null,
      replayed: false
    })
    assert.deepStrictEqual(answer.json, { resourceId: "dead", changed: true })
    const { availableAt, ...row } = yield* delivery("dead")
    assert.deepInclude(row, { status: "pending", attempts: 11, retries: 0, finishedAt: null })
    const due = availableAt?.getTime() ?? 0
    assert.isTrue(due >= before && due <= Date.now(), `${due}`)
  })

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

  it.effect("is the only state that can be retried", function* () {
    const { deliver, delivery, retry } = yield* openDead()
    for (const status of ["pending", "delivering", "delivered"]) {
      yield* deliver(status, status)
      const before = yield* delivery(status)
      const { detail } = problemOf(yield* retry(status), 409, "webhook_state_conflict")
      const why =
        status === "delivered"
          ? "is delivered. An operator can send it again by a replay"
          : "is sent at its nextAttemptAt"
      assert.strictEqual(detail, `Only a dead delivery can be retried: this one ${why}.`)
      assert.deepStrictEqual(yield* delivery(status), before)
    }
  })

  it.effect("stays dead while its webhook is disabled", function* () {
    const { configured, deliver, delivery, disable, retry } = yield* openDead()
    yield* deliver("next", "pending")
    yield* disable
    const before = yield* delivery("dead")
    const key = newKey()
    // The pending one is dead-lettered soon: waiting for it would be no remedy.
    for (const id of ["dead", "next"]) {
      const { detail } = problemOf(yield* retry(id, key), 409, "webhook_state_conflict")
      assert.strictEqual(detail, "The webhook is disabled: configure it again first.")
    }
    assert.deepStrictEqual(yield* delivery("dead"), before)
    yield* configured({ expectedVersion: 1 })
    assert.isFalse(unversionedReceiptOf(yield* retry("dead", key)).replayed)
  })

  it.effect("stays dead while its webhook does not subscribe to its type", function* () {
    const { configured, deliver, delivery, retry } = yield* openDead()
    yield* deliver("never", "dead", stageChanged)
    yield* configured({ expectedVersion: 1, eventTypes: [updated] })
    const before = yield* delivery("dead")
    for (const id of ["dead", "never"]) problemOf(yield* retry(id), 409, "webhook_state_conflict")
    assert.deepStrictEqual(yield* delivery("dead"), before)
    yield* configured({ expectedVersion: 2, eventTypes: [created, updated], endpointUrl: "https://new.example.com/" })
    unversionedReceiptOf(yield* retry("dead"))
    problemOf(yield* retry("never"), 409, "webhook_state_conflict")
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

  it.effect("does not unpark its endpoint when it is retried", function* () {
    const { delivery, found, health, retry, setHealth } = yield* openDead()
    yield* setHealth(parked)
    const before = [yield* health, yield* found]
    unversionedReceiptOf(yield* retry("dead"))
    assert.deepStrictEqual([yield* health, yield* found], before)
    assert.strictEqual((yield* delivery("dead")).status, "pending")
  })
})
