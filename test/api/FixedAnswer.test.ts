/** The documents as they are served: compressed, and not sent again while they are unchanged. */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { get as httpGet, type IncomingMessage } from "node:http"
import { buffer } from "node:stream/consumers"
import { brotliDecompressSync, gunzipSync } from "node:zlib"
import { startServer } from "../support/TestServer.ts"

describe("the documents", () => {
  it.live("are compressed for clients that accept it, and answered with 304 while they are unchanged", function* () {
    const { url } = yield* startServer()
    const get = (path: string, headers: Record<string, string> = {}) =>
      Effect.promise(async () => {
        const response = await new Promise<IncomingMessage>((resolve, reject) =>
          httpGet(new URL(path, url), { headers, agent: false }, resolve).on("error", reject)
        )
        return { status: response.statusCode, headers: response.headers, body: await buffer(response) }
      })
    for (const path of [
      "/openapi.json",
      "/docs",
      "/contract.md",
      "/llms.txt",
      "/.well-known/api-catalog",
      "/arazzo.json"
    ]) {
      const plain = yield* get(path)
      assert.strictEqual(plain.headers["content-encoding"], undefined)
      assert.strictEqual(plain.headers["x-content-type-options"], "nosniff")
      assert.strictEqual(plain.headers["vary"], "accept-encoding")
      const tags = new Set([plain.headers.etag])
      for (const [accepted, encoding, decompress] of [
        ["gzip, deflate, br, zstd", "br", brotliDecompressSync],
        ["deflate, GZIP;q=0.5", "gzip", gunzipSync],
        ["br;q=0, gzip", "gzip", gunzipSync]
      ] as const) {
        const small = yield* get(path, { "accept-encoding": accepted })
        assert.strictEqual(small.headers["content-encoding"], encoding)
        assert.isBelow(small.body.length, plain.body.length / (plain.body.length < 10_000 ? 1.5 : 2.5))
        assert.isTrue(decompress(small.body).equals(plain.body))
        tags.add(small.headers.etag)
        const again = yield* get(path, {
          "accept-encoding": accepted,
          "if-none-match": `"other", W/${small.headers.etag}`
        })
        assert.deepStrictEqual([again.status, again.body.length, again.headers.etag], [304, 0, small.headers.etag])
      }
      assert.strictEqual(tags.size, 3)
      assert.strictEqual((yield* get(path, { "if-none-match": '"other"' })).status, 200)
    }
  })
})
