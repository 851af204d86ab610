/** Signing secrets: rotation, and the keys that seal them (contract §10). `faults/Secrets` tests where they must not appear. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { problemOf, receiptOf, secretOf } from "../support/ContractAnswers.ts"
import { secretKey, startServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"
import { api, assertConflict, callsOf, created, open } from "./Webhooks.support.ts"

const hour = 3_600_000

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

  it.effect("is not rotated without a webhook", function* () {
    const { configured, read, rotate, rotated, secrets } = yield* open()
    const key = newKey()
    for (const version of [1, 2]) problemOf(yield* rotate(version, key), 409, "webhook_state_conflict")
    assert.isUndefined(yield* read)
    assert.deepStrictEqual(yield* secrets, [])
    yield* configured()
    yield* rotated(1)
  })

  it.effect("is rotated without a change of the webhook's state and its endpoint's health", function* () {
    const { configured, disable, found, health, park, rotated } = yield* open()
    yield* configured()
    yield* disable
    yield* park
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
    assertRetires(first?.retiresAt, 24 * hour)

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
