/** URLs that a webhook accepts, as far as the text decides (contract §10). `EndpointUrl` tests every spelling. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { problemOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { api, open } from "./Webhooks.support.ts"

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
