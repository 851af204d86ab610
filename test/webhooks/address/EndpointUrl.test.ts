/** Endpoint URLs, and the addresses that they may hold or resolve to. */
import { assert, describe, it } from "@effect/vitest"
import { Option, Result } from "effect"
import fc from "fast-check"
import {
  checkUrl,
  classify,
  urlFault,
  mayConnect,
  type Networks,
  networksOf
} from "../../../src/webhooks/address/Addresses.ts"

const networks = (...texts: ReadonlyArray<string>): Networks => networksOf(texts)
const judged = (addresses: ReadonlyArray<string>, allowed = networksOf([])) =>
  addresses.map((address) => `${address} ${classify(address, allowed)}`)
const all = (addresses: ReadonlyArray<string>, judgement: string) =>
  addresses.map((address) => `${address} ${judgement}`)

// First and last address of every row of the registries, and the addresses next to the blocks.
const refusedIPv4 =
  "0.0.0.0 0.255.255.255 10.0.0.0 10.255.255.255 100.64.0.0 100.127.255.255 127.0.0.0 127.0.0.1 127.255.255.255 " +
  "169.254.0.0 169.254.169.254 169.254.255.255 172.16.0.0 172.31.255.255 192.0.0.0 192.0.0.7 192.0.0.8 192.0.0.11 " +
  "192.0.0.170 192.0.0.171 192.0.0.255 192.0.2.0 192.0.2.255 192.88.99.0 192.88.99.2 192.88.99.255 192.168.0.0 " +
  "192.168.255.255 198.18.0.0 198.19.255.255 198.51.100.0 198.51.100.255 203.0.113.0 203.0.113.255 224.0.0.0 " +
  "239.255.255.255 240.0.0.0 255.255.255.254 255.255.255.255"
const publicIPv4 =
  "1.0.0.0 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0 169.253.255.255 169.255.0.0 " +
  "172.15.255.255 172.32.0.0 191.255.255.255 192.0.0.9 192.0.0.10 192.0.1.0 192.0.3.0 192.31.196.1 192.52.193.1 " +
  "192.88.98.255 192.88.100.0 192.167.255.255 192.169.0.0 192.175.48.1 198.17.255.255 198.20.0.0 198.51.99.255 " +
  "198.51.101.0 203.0.112.255 203.0.114.0 223.255.255.255 8.8.8.8"
const refusedIPv6 =
  ":: ::1 ::2 ::ffff:ffff:ffff ::7f00:1 ::8.8.8.8 ::1:0:0:0 64:ff9b:0:0:0:1:808:808 64:ff9b:1:: 64:ff9b:1::808:808 " +
  "64:ff9b:1:ffff:ffff:ffff:ffff:ffff 64:ff9c:: 100:: 100::ffff:ffff:ffff:ffff 100:0:0:1:: 100:0:0:1::1 " +
  "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 2001:: 2001:0:808:808::1 2001:1:: 2001:1::4 2001:2:: 2001:2:0:ffff::1 " +
  "2001:2:1:: 2001:4:111:ffff:: 2001:4:113:: 2001:10:: 2001:1f:ffff:: 2001:40:: 2001:1ff:ffff:: 2001:db8:: " +
  "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff 3fff:: 3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff 4000:: 5f00:: 5f00:ffff:: " +
  "fc00:: fd00:ec2::254 fdff:ffff:: fe00:: fe80:: fe80::1 febf:ffff:: fec0:: feff:ffff:: ff00:: ff02::1 ff0e::1 " +
  "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"
const publicIPv6 =
  "2000:: 2001:1::1 2001:1::2 2001:1::3 2001:3:: 2001:3:ffff:: 2001:4:112:: 2001:4:112:ffff:: 2001:20:: 2001:2f:ffff:: " +
  "2001:30:: 2001:3f:ffff:: 2001:200:: 2001:db7:ffff:: 2001:db9:: 2001:4860:4860::8888 2606:4700:4700::1111 " +
  "2620:4f:8000::1 3ffe:ffff:: 3fff:1000:: 3fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"

describe("addresses", () => {
  it("are refused when the IANA registries list them as not globally reachable", () => {
    const refused = `${refusedIPv4} ${refusedIPv6}`.split(" ")
    assert.deepStrictEqual(judged(refused), all(refused, "refused"))
  })

  it("are accepted everywhere else", () => {
    const open = `${publicIPv4} ${publicIPv6}`.split(" ")
    assert.deepStrictEqual(judged(open), all(open, "public"))
  })

  it("are classified alike in every spelling", () => {
    const same = [
      "::FFFF:127.0.0.1",
      "0:0:0:0:0:ffff:7f00:1",
      "::ffff:7f00:0001",
      "0000:0000:0000:0000:0000:FFFF:7F00:1"
    ]
    assert.deepStrictEqual(judged(same), all(same, "refused"))
    assert.deepStrictEqual(judged(same, networks("127.0.0.1")), all(same, "allowed"))
  })

  it("with a zone, or invalid ones, are refused even when every network is allowed", () => {
    const none = [
      "",
      "localhost",
      "127.1",
      "0x7f.0.0.1",
      "fe80::1%eth0",
      "[::1]",
      "::1]:80/[",
      "1.2.3.4:80",
      "8.8.8.8 "
    ]
    assert.deepStrictEqual(judged(none, networks("0.0.0.0/0", "::/0")), all(none, "refused"))
  })

  it("that embed an IPv4 address are classified by it", () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.ipV4(), fc.constantFrom(...refusedIPv4.split(" "), ...publicIPv4.split(" "))),
        fc.constantFrom(networksOf([]), networks("10.0.0.0/8", "8.0.0.0/8", "fd00::/8")),
        fc.nat({ max: 0xffff }),
        (ipv4, allowed, tail) => {
          const [a = 0, b = 0, c = 0, d = 0] = ipv4.split(".").map(Number)
          const hex = (high: number, low: number) => (high * 256 + low).toString(16)
          const forms = [
            `::ffff:${ipv4}`,
            `::ffff:${hex(a, b)}:${hex(c, d)}`,
            `64:ff9b::${ipv4}`,
            `64:ff9b::${hex(a, b)}:${hex(c, d)}`,
            `2002:${hex(a, b)}:${hex(c, d)}::${tail.toString(16)}`
          ]
          assert.deepStrictEqual(judged(forms, allowed), all(forms, classify(ipv4, allowed)))
        }
      ),
      { numRuns: 500 }
    )
  })
})

describe("allowed networks", () => {
  it("allow their own addresses and no others", () => {
    const allowed = networks("10.1.2.3/16", "192.168.7.7", "fd12:3456::/32", "::1/128", "2606:4700::/32")
    const open = "10.1.0.0 10.1.255.255 192.168.7.7 fd12:3456::1 ::1 ::ffff:10.1.0.1 64:ff9b::10.1.0.1 2606:4700::1"
    assert.deepStrictEqual(judged(open.split(" "), allowed), all(open.split(" "), "allowed"))
    const closed = "10.0.255.255 10.2.0.0 192.168.7.6 fd12:3457::1 ::2 ::ffff:10.2.0.1 ::10.1.0.1 127.0.0.1 fe80::1"
    assert.deepStrictEqual(judged(closed.split(" "), allowed), all(closed.split(" "), "refused"))
    assert.deepStrictEqual(judged(["8.8.8.8", "2001:4860::1"], allowed), all(["8.8.8.8", "2001:4860::1"], "public"))
  })
})

const loopback = networksOf(["127.0.0.0/8", "::1/128"])

const verdict = (url: string, allowed = networksOf([])) =>
  Result.match(checkUrl(url, allowed), { onSuccess: () => "taken", onFailure: (reason) => reason })
const verdicts = (urls: ReadonlyArray<string>, allowed = networksOf([])) =>
  urls.map((url) => `${url} ${verdict(url, allowed)}`)

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

  it("uses https, or http with a host name that may be in an allowed network", () => {
    const others = ["ftp://example.com/", "ws://example.com/", "javascript:alert(1)", "mailto:a@example.com", "data:,x"]
    assert.deepStrictEqual(verdicts(others, loopback), all(others, notHttps))
    const names = ["http://example.com/", "http://localhost:3000/", "http://localhost./"]
    assert.deepStrictEqual(verdicts(names), all(names, notHttps))
    assert.deepStrictEqual(verdicts(names, networks("10.0.0.0/8")), all(names, "taken"))
    const [elsewhere = "", ...local] = names
    assert.deepStrictEqual(urlFault(elsewhere, loopback), Option.some(notHttps))
    for (const name of local) assert.deepStrictEqual(urlFault(name, loopback), Option.none())
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
    const host = (url: string) => Result.map(checkUrl(url, loopback), ({ host, isAddress }) => ({ host, isAddress }))
    assert.deepStrictEqual(host("https://Example.COM./x"), Result.succeed({ host: "example.com.", isAddress: false }))
    assert.deepStrictEqual(host("https://[::0001]:1/"), Result.succeed({ host: "::1", isAddress: true }))
    assert.deepStrictEqual(host("https://0x7f.1/"), Result.succeed({ host: "127.0.0.1", isAddress: true }))
    assert.deepStrictEqual(verdict("not a URL"), "The endpoint URL can't be read.")
  })
})

it("a connection with plain http is made to allowed networks only", () => {
  const judgements = ["public", "allowed", "refused"] as const
  assert.deepStrictEqual(
    judgements.map((judgement) => mayConnect("http:", judgement)),
    [false, true, false]
  )
  assert.deepStrictEqual(
    judgements.map((judgement) => mayConnect("https:", judgement)),
    [true, true, false]
  )
})
