import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import { networksOf } from "../../../src/integrations/endpoints/Addresses.ts"
import { checkEndpoint, mayConnect } from "../../../src/integrations/endpoints/EndpointUrl.ts"

const loopback = networksOf(["127.0.0.0/8", "::1/128"])

const verdict = (url: string, allowed = networksOf([])) =>
  Result.match(checkEndpoint(url, allowed), { onSuccess: () => "taken", onFailure: (reason) => reason })
const verdicts = (urls: ReadonlyArray<string>, allowed = networksOf([])) =>
  urls.map((url) => `${url} ${verdict(url, allowed)}`)
const all = (urls: ReadonlyArray<string>, verdict: string) => urls.map((url) => `${url} ${verdict}`)

const notPublic =
  "The endpoint's address is neither public nor one that the operator allows (WEBHOOK_ALLOWED_NETWORKS)."
const notHttps = "The endpoint URL must use https."

/** Spellings of 127.0.0.1, or of an address that embeds it. */
const loopbacks = [
  "127.0.0.1 127.0.0.1. 127.1 127.0.1 2130706433 0x7f000001 0x7f.1 0X7F.0.0.0x1 0177.0.0.01 017700000001",
  "%31%32%37.0.0.1 １２７。０。０。１ ①②⑦.0.0.1 [::ffff:127.0.0.1] [::FFFF:7F00:1] [0:0:0:0:0:ffff:127.0.0.1]",
  "[64:ff9b::127.0.0.1] [2002:7f00:1::]"
].flatMap((spellings) => spellings.split(" "))

describe("an endpoint's URL", () => {
  it("may name any host or any public address", () => {
    const taken = [
      "https://shop.example.com/hooks?token=a%23b",
      "https://shop.example.com:8443",
      "https://localhost/",
      "https://localhost./",
      "https://127.0.0.1.nip.io/",
      "https://example.com./",
      "https://ümlaut.example/",
      "https://8.8.8.8/",
      "https://0x08080808/",
      "https://[2606:4700:4700::1111]/",
      "HTTPS://EXAMPLE.COM",
      "https://192.0.0.9/"
    ]
    assert.deepStrictEqual(verdicts(taken), all(taken, "taken"))
  })

  it("may not hold an address that is not public, in any spelling", () => {
    const refused = [
      ...loopbacks,
      "[::1]",
      "[::]",
      "0",
      "0.0.0.0",
      "169.254.169.254",
      "10.0.0.1",
      "[fd00::1]",
      "[fe80::1]",
      "[::127.0.0.1]",
      "255.255.255.255"
    ].map((host) => `https://${host}:8443/hooks`)
    assert.deepStrictEqual(verdicts(refused), all(refused, notPublic))
    assert.strictEqual(verdict("https:\\\\127.0.0.1/"), notPublic)
    assert.strictEqual(verdict("https:127.0.0.1"), notPublic)
    assert.strictEqual(verdict("https://127.0.0.\t1/"), notPublic)
  })

  it("may hold one of an allowed network, in any spelling, also with http", () => {
    const urls = [...loopbacks, "[::1]", "[0:0:0:0:0:0:0:1]"].flatMap((host) => [`https://${host}/`, `http://${host}/`])
    assert.deepStrictEqual(verdicts(urls, loopback), all(urls, "taken"))
    assert.strictEqual(verdict("http://10.0.0.1/", loopback), notPublic)
    assert.strictEqual(verdict("http://8.8.8.8/", loopback), notHttps)
  })

  it("uses https, or http with a host name when networks are allowed", () => {
    const others = ["ftp://example.com/", "ws://example.com/", "javascript:alert(1)", "mailto:a@example.com", "data:,x"]
    assert.deepStrictEqual(verdicts(others, loopback), all(others, notHttps))
    const names = ["http://example.com/", "http://localhost:3000/", "http://localhost./"]
    assert.deepStrictEqual(verdicts(names), all(names, notHttps))
    assert.deepStrictEqual(verdicts(names, loopback), all(names, "taken"))
  })

  it("has no credentials and no fragment", () => {
    const credentials = [
      "https://user@example.com/",
      "https://user:secret@example.com/",
      "https://:secret@example.com/"
    ]
    assert.deepStrictEqual(verdicts(credentials), all(credentials, "The endpoint URL must not hold credentials."))
    const fragments = ["https://example.com/#top", "https://example.com/#", "https://example.com/?a#b#c"]
    assert.deepStrictEqual(verdicts(fragments), all(fragments, "The endpoint URL must not have a fragment."))
  })

  it("keeps its host unchanged for the Host header", () => {
    const host = (url: string) =>
      Result.map(checkEndpoint(url, loopback), ({ host, isAddress }) => ({ host, isAddress }))
    assert.deepStrictEqual(host("https://Example.COM./x"), Result.succeed({ host: "example.com.", isAddress: false }))
    assert.deepStrictEqual(host("https://[::0001]:1/"), Result.succeed({ host: "::1", isAddress: true }))
    assert.deepStrictEqual(host("https://0x7f.1/"), Result.succeed({ host: "127.0.0.1", isAddress: true }))
    assert.deepStrictEqual(verdict("not a URL"), "The endpoint URL can't be read.")
  })
})

it("a connection with plain http is made to allowed networks only", () => {
  const [http, https] = [new URL("http://example.com"), new URL("https://example.com")]
  const judgements = ["public", "allowed", "refused"] as const
  assert.deepStrictEqual(
    judgements.map((judgement) => mayConnect(http, judgement)),
    [false, true, false]
  )
  assert.deepStrictEqual(
    judgements.map((judgement) => mayConnect(https, judgement)),
    [true, true, false]
  )
})
