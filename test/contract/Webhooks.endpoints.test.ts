/** Where a webhook's events may go, as far as its URL tells by itself (contract §10). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { faultsOf, problemOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { api, open } from "./Webhooks.support.ts"

const filled = (character: string, length: number) => {
  const start = "https://shop.example.com/"
  return start + character.repeat(length - start.length)
}

layer(api, { excludeTestServices: true })("a webhook endpoint", (it) => {
  it.effect("is a URL of at most 2048 characters", () =>
    Effect.gen(function* () {
      const { configure, configured, read } = yield* open()
      for (const endpointUrl of [
        "",
        " ",
        "nonsense",
        "shop.example.com",
        "/hooks",
        "//shop.example.com/hooks",
        "https://",
        "https:///",
        "https://exa mple.com/",
        "https://shop.example.com:65536/",
        "https://shop.example.com:x/",
        "https://[::1/",
        "https://[::g]/",
        "https://256.256.256.256/",
        "https://127.0.0.0.1/",
        "https://%00/",
        "https://a%zz/",
        filled("a", 2049),
        filled("😀", 2049),
        null,
        1,
        [filled("a", 30)],
        undefined
      ]) {
        const answer = yield* configure({ endpointUrl })
        assert.deepStrictEqual(faultsOf(answer), ["body/endpointUrl"], JSON.stringify(endpointUrl))
      }
      assert.isUndefined(yield* read)
      yield* configured({ endpointUrl: filled("a", 2048) })
      yield* configured({ endpointUrl: filled("😀", 2048), expectedVersion: 1 })
    })
  )

  const refused = Effect.fnUntraced(function* (urls: ReadonlyArray<string>) {
    const { configure, configured, found, read } = yield* open()
    for (const endpointUrl of urls) {
      const answer = yield* configure({ endpointUrl })
      assert.isString(problemOf(answer, 400, "webhook_reference_invalid").detail, endpointUrl)
    }
    assert.isUndefined(yield* read)
    yield* configured()
    const before = yield* found
    for (const endpointUrl of urls) {
      problemOf(yield* configure({ endpointUrl, expectedVersion: 1 }), 400, "webhook_reference_invalid")
    }
    assert.deepStrictEqual(yield* found, before)
  })

  it.effect("requires https", () =>
    refused([
      "http://shop.example.com/hooks",
      "HTTP://shop.example.com/",
      "http://8.8.8.8/",
      "http://127.0.0.1/",
      "ftp://shop.example.com/",
      "ws://shop.example.com/",
      "wss://shop.example.com/",
      "file:///etc/passwd",
      "javascript:alert(1)",
      "data:text/plain,x",
      "mailto:shop@example.com",
      "urn:shop",
      "httpss://shop.example.com/"
    ])
  )

  it.effect("has no credentials and no fragment", () =>
    refused([
      "https://user@shop.example.com/",
      "https://user:secret@shop.example.com/",
      "https://:secret@shop.example.com/",
      "https://a%40b@shop.example.com/",
      "https://shop.example.com/#hooks",
      "https://shop.example.com/hooks#",
      "https://shop.example.com/?a=1#b?c"
    ])
  )

  it.effect("has no address that is not public, in any spelling", () =>
    refused(
      [
        // This host, loopback, and what embeds it.
        "127.0.0.1",
        "127.1",
        "127.255.255.254",
        "0",
        "0.0.0.0",
        "2130706433",
        "017700000001",
        "0x7f000001",
        "0x7F.0x0.0.1",
        "127.0.0.1.",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "127。0。0。1",
        "[::1]",
        "[::]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:FFFF:7F00:0001]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[64:ff9b::a00:1]",
        "[2002:7f00:1::]",
        "[2002:c0a8:1::1]",
        // Private, shared, link-local with what clouds tell there, benchmarks, documentation, multicast, reserved.
        "10.0.0.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "0xA9FEA9FE",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "[fc00::1]",
        "[fd12:3456::1]",
        "[fe80::1]",
        "[fec0::1]",
        "[ff02::1]",
        "[100::1]",
        "[64:ff9b:1::1]",
        "[2001::1]",
        "[2001:db8::1]",
        "[3fff::1]",
        "[5f00::1]"
      ].flatMap((host) => [`https://${host}/hooks`, `https://${host}:8443/`])
    )
  )

  it.effect("has any public address, or any host name", () =>
    Effect.gen(function* () {
      const { configured, found } = yield* open()
      let expectedVersion: number | null = null
      for (const endpointUrl of [
        "https://shop.example.com",
        "https://shop.example.com:8443/hooks?token=a%23b",
        "HTTPS://SHOP.EXAMPLE.COM/",
        "https://ümlaut.example/日本",
        "https://localhost/",
        "https://nothing.invalid/",
        "https://127.0.0.1.nip.io/",
        "https://8.8.8.8/",
        "https://172.32.0.1/",
        "https://100.128.0.1/",
        "https://[2606:4700:4700::1111]/",
        "https://[::ffff:8.8.8.8]/",
        "https://[64:ff9b::8.8.8.8]/"
      ]) {
        const { version }: { readonly version: number } = yield* configured({ endpointUrl, expectedVersion })
        assert.deepInclude(yield* found, { endpointUrl, version })
        expectedVersion = version
      }
    })
  )
})

layer(TestServer.layer({ WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8, fd00::/8" }, "api"), { excludeTestServices: true })(
  "a webhook endpoint in WEBHOOK_ALLOWED_NETWORKS",
  (it) => {
    it.effect("is accepted with https and http, and no other address that is not public", () =>
      Effect.gen(function* () {
        const { configure, configured } = yield* open()
        let expectedVersion: number | null = null
        for (const host of ["127.0.0.1:8080", "127.1", "0x7f000001", "[::ffff:127.0.0.1]", "[fd12::1]"]) {
          for (const scheme of ["http", "https"]) {
            const endpointUrl = `${scheme}://${host}/hooks`
            const { version }: { readonly version: number } = yield* configured({ endpointUrl, expectedVersion })
            expectedVersion = version
          }
        }
        for (const endpointUrl of [
          "http://8.8.8.8/",
          "http://10.0.0.1/",
          "https://10.0.0.1/",
          "https://[::1]/",
          "https://[fc00::1]/",
          "ftp://127.0.0.1/",
          "http://user@127.0.0.1/",
          "http://127.0.0.1/#"
        ]) {
          problemOf(yield* configure({ endpointUrl, expectedVersion }), 400, "webhook_reference_invalid")
        }
      })
    )
  }
)
