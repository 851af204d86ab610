/** Outbound webhooks: effects of a configure, and the URLs that it accepts as far as the text decides (contract §5, §10). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { problemOf, receiptOf, secretOf } from "../support/ContractAnswers.ts"
import { startServer, TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"
import { api, assertConflict, created, open, stageChanged, updated, usual } from "./Webhooks.support.ts"

const url = "https://other.example.com/"

layer(api, { excludeTestServices: true })("a webhook", (it) => {
  it.effect("is created with a secret in the answer", function* () {
    const { configure, found, read } = yield* open()
    assert.isUndefined(yield* read)
    const { signingSecret, ...receipt } = secretOf(yield* configure())
    assert.deepStrictEqual(receipt, { resourceId: "ins", changed: true, version: 1 })
    assert.strictEqual(Buffer.from(signingSecret.slice("whsec_".length), "base64").byteLength, 32)
    assert.deepStrictEqual(yield* found, {
      endpointUrl: usual.endpointUrl,
      eventTypes: [created, updated],
      enabled: true,
      version: 1
    })
  })

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
    const { configure, configured, health, park } = yield* open()
    const healthy = { failures: 0, failedProbes: 0, parkedUntil: null }
    yield* configured()
    assert.deepStrictEqual(yield* health, healthy)
    for (const change of [{ expectedVersion: 1 }, { expectedVersion: 1, endpointUrl: url }]) {
      yield* park
      const unhealthy = yield* health
      for (const refused of [{}, { expectedVersion: 7 }, { expectedVersion: 1, endpointUrl: "http://a.example/" }]) {
        assert.oneOf((yield* configure(refused)).status, [400, 409])
      }
      assert.deepStrictEqual(yield* health, unhealthy)
      const key = newKey()
      secretOf(yield* configure(change, key))
      assert.deepStrictEqual(yield* health, healthy)
      // A repeated request has no effect either.
      yield* park
      const parked = yield* health
      assert.isTrue(receiptOf(yield* configure(change, key), 200).replayed)
      assert.deepStrictEqual(yield* health, parked)
    }
  })

  it.effect("checks the idempotency key before the endpoint's address", function* () {
    const { configure } = yield* open()
    const key = newKey()
    secretOf(yield* configure({}, key))
    for (const endpointUrl of ["https://127.0.0.1/", "http://shop.example.com/"]) {
      problemOf(yield* configure({ endpointUrl }, key), 409, "idempotency_key_reused")
    }
  })

  it.effect("replays its answer when its endpoint's network is no longer allowed", function* () {
    const webhooks = yield* open()
    const { server } = webhooks
    const before = yield* startServer(
      { DATABASE_URL: server.databaseUrl, WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8" },
      "api"
    )
    const key = newKey()
    const change = { endpointUrl: "https://127.0.0.1/" }
    const { signingSecret: _, ...receipt } = secretOf(yield* webhooks.but({ server: before }).configure(change, key))
    assert.deepStrictEqual(receiptOf(yield* webhooks.configure(change, key), 200), { ...receipt, replayed: true })
  })
})

// `EndpointUrl` tests every spelling.

/** Configures each URL in turn and asserts that it is stored unchanged. */
const assertTaken = Effect.fnUntraced(function* (
  { configured, found }: Effect.Success<ReturnType<typeof open>>,
  urls: ReadonlyArray<string>
) {
  for (const [index, endpointUrl] of urls.entries()) {
    const { version } = yield* configured({ endpointUrl, expectedVersion: index === 0 ? null : index })
    assert.deepInclude(yield* found, { endpointUrl, version })
  }
})

layer(api, { excludeTestServices: true })("a webhook endpoint", (it) => {
  it.effect(
    "has https, no credentials, no fragment and no address that is not public, else nothing changes",
    function* () {
      const { configure, configured, found, read } = yield* open()
      const refused = (expectedVersion: number | null) =>
        Effect.forEach(
          [
            "http://shop.example.com/hooks",
            "mailto:shop@example.com",
            "https://user:secret@shop.example.com/",
            "https://shop.example.com/#hooks",
            "https://%31%32%37.0.0.1:8443/",
            "https://169.254.169.254/hooks",
            "https://[::ffff:10.0.0.1]/"
          ],
          (endpointUrl) =>
            Effect.map(configure({ endpointUrl, expectedVersion }), (answer) =>
              assert.isString(problemOf(answer, 400, "webhook_reference_invalid").detail, endpointUrl)
            )
        )
      yield* refused(null)
      assert.isUndefined(yield* read)
      yield* configured()
      const before = yield* found
      yield* refused(1)
      assert.deepStrictEqual(yield* found, before)
    }
  )

  it.effect("has any public address, or any host name", function* () {
    yield* assertTaken(yield* open(), [
      "https://shop.example.com:8443/hooks?token=a%23b",
      "HTTPS://ÜMLAUT.example/日本",
      "https://nothing.invalid/",
      "https://[64:ff9b::8.8.8.8]/"
    ])
  })
})

const allowing = TestServer.layer({ WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8, fd00::/8" }, "api")

layer(allowing, { excludeTestServices: true })("a webhook endpoint in WEBHOOK_ALLOWED_NETWORKS", (it) => {
  it.effect("is accepted with https and http, and no other address that is not public", function* () {
    const webhooks = yield* open()
    const taken = ["http://127.0.0.1:8080/", "https://0x7f000001/", "http://[fd12::1]/hooks"]
    yield* assertTaken(webhooks, taken)
    for (const endpointUrl of ["http://8.8.8.8/", "https://10.0.0.1/", "http://user@127.0.0.1/"]) {
      const answer = yield* webhooks.configure({ endpointUrl, expectedVersion: taken.length })
      problemOf(answer, 400, "webhook_reference_invalid")
    }
  })
})
