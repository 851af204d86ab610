/** The documents that are read before a call: their form, how they are served, and where their links lead (contract §15). */
import { assert, it, layer } from "../support/Vitest.ts"
import { Effect, Exit, Schema } from "effect"
import { HttpServerRequest } from "effect/http"
import type { ChildProcess } from "node:child_process"
import { subscribe, unsubscribe } from "node:diagnostics_channel"
import { get as httpGet, type IncomingMessage } from "node:http"
import { createHash } from "node:crypto"
import { buffer } from "node:stream/consumers"
import { brotliDecompressSync, gunzipSync } from "node:zlib"
import { fixedAnswer } from "../../src/documents/FixedAnswer.ts"
import { send } from "../support/ContractHttp.ts"
import { anchorsOf, linksOf } from "../support/Markdown.ts"
import { freePort } from "../support/Process.ts"
import { startServer, TestServer } from "../support/TestServer.ts"

const decodeDocument = Schema.decodeUnknownSync(Schema.Struct({ info: Schema.Struct({ description: Schema.String }) }))

/** Returns the targets of all links of the documents. */
const targets = Effect.fnUntraced(function* (url: string) {
  const read = (path: string) => send(url, { path })
  return {
    root: String((yield* read("/")).headers.location),
    contract: linksOf((yield* read("/contract.md")).text),
    llms: linksOf((yield* read("/llms.txt")).text)
  }
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the documents", (it) => {
  it.effect("have no link that leads nowhere", function* () {
    const { send, url } = yield* TestServer
    const { contract, llms, root } = yield* targets(url)
    const text = (yield* send({ path: "/contract.md" })).text
    const anchors = new Set([...anchorsOf(text)].map((anchor) => `#${anchor}`))
    assert.isAbove(contract.length, 4)
    assert.deepStrictEqual(
      contract.filter((target) => !anchors.has(target) && !/^https:|^(client|agents)\.md$/.test(target)),
      []
    )
    assert.isAbove(llms.length, 4)
    for (const target of [root, ...llms]) {
      const { hash, origin, pathname } = new URL(target, url)
      assert.strictEqual(origin, url)
      assert.strictEqual((yield* send({ path: pathname })).status, 200, target)
      assert.strictEqual(hash, "", target)
    }
  })

  it.effect("are pages, whose links lead to a heading or to another document", function* () {
    const { send } = yield* TestServer
    for (const path of ["/contract", "/client", "/agents"]) {
      const { headers, text } = yield* send({ path })
      assert.strictEqual(headers["content-type"], "text/html; charset=utf-8")
      const [, style = ""] = /<style>([^]*)<\/style>/.exec(text) ?? []
      const hash = createHash("sha256").update(style).digest("base64")
      assert.include(headers["content-security-policy"], `default-src 'none'; style-src 'sha256-${hash}';`)
      assert.notMatch(text, /<script|style="|\]\(/)
      const anchors = new Set([...text.matchAll(/<h\d id="([^"]+)"/g)].map(([, anchor = ""]) => `#${anchor}`))
      const links = [...text.matchAll(/ href="([^"]+)"/g)].map(([, target = ""]) => target)
      for (const target of links.filter((target) => !/^(https|data):/.test(target))) {
        if (target.startsWith("#")) assert.isTrue(anchors.has(target), `${path}${target}`)
        else assert.strictEqual((yield* send({ path: `/${target}` })).status, 200, target)
      }
      // The list of contents leads to every section.
      const sections = [...text.matchAll(/<h2 id="([^"]+)"/g)].map(([, anchor]) => `#${anchor}`)
      assert.includeMembers(links, sections)
      assert.isAbove(sections.length, 4)
    }
    const { text } = yield* send({ path: "/contract" })
    assert.include(text, '<a href="#10-webhooks">§10</a>')
    assert.include(text, '<td role="cell" data-name="scope"><code>crm.deals.write</code></td>')
  })

  it.effect("name a file that is not served as one of the repository", function* () {
    const { send } = yield* TestServer
    for (const path of ["/contract.md", "/llms.txt"]) {
      const text = (yield* send({ path })).text.replaceAll(/\s+/g, " ")
      const files = [...text.matchAll(/(?<![\w/:.])(?:src|test|deploy|migrations)\/[\w./-]*\w`?(.{30})/g)]
      assert.strictEqual(files.length > 2, path === "/contract.md", path)
      for (const [file, after = ""] of files) assert.match(after, /^ in the (service's )?repository\b/, file)
      assert.notMatch(text, /(?<!repository's|the client's) README\b(?! of the package)/)
    }
  })

  it.effect("have their media types", function* () {
    const { send } = yield* TestServer
    const typeOf = (path: string) => Effect.map(send({ path }), ({ headers }) => String(headers["content-type"]))
    assert.strictEqual(yield* typeOf("/contract.md"), "text/markdown; charset=utf-8")
    assert.strictEqual(yield* typeOf("/llms.txt"), "text/plain; charset=utf-8")
  })

  it.effect("have the form of llmstxt.org", function* () {
    const { send, url } = yield* TestServer
    const { text } = yield* send({ path: "/llms.txt" })
    const [head = "", ...sections] = text.split(/^## /m)
    assert.match(head, /^# [^\n]+\n\n> [^\n]+\n\n[^#]*$/)
    assert.isAbove(sections.length, 1)
    for (const section of sections) assert.match(section, /^[^\n]+\n\n(- \[[^\]]+\]\([^)]+\): [^\n]+\n)+\n?$/)
    for (const path of ["/contract.md", "/openapi.json", "/client.md"]) {
      assert.include(linksOf(text), `${url}${path}`)
    }
  })

  it.effect("are compressed for clients that accept it, and answered with 304 while they are unchanged", function* () {
    const { url } = yield* TestServer
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
      "/docs/viewer.js",
      "/docs/openapi.json",
      "/contract",
      "/contract.md",
      "/llms.txt"
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

it.live("the package of the client is compiled once, also for callers who leave before its answer", function* () {
  const { url } = yield* startServer({}, "api")
  const children: Array<ChildProcess> = []
  const add = (message: unknown) => void children.push(Object(message).process)
  yield* Effect.acquireRelease(
    Effect.sync(() => subscribe("child_process", add)),
    () => Effect.sync(() => unsubscribe("child_process", add))
  )
  const read = async (signal: AbortSignal | null = null) => {
    const answer = await fetch(`${url}/client.tgz`, { signal })
    return { type: answer.headers.get("content-type"), bytes: Buffer.from(await answer.arrayBuffer()) }
  }
  for (const _ of [1, 2, 3]) {
    const left: unknown = yield* Effect.promise(() => read(AbortSignal.timeout(100)).catch(({ name }) => name))
    assert.strictEqual(left, "TimeoutError")
    yield* Effect.sleep("50 millis")
  }
  const [first, second] = yield* Effect.promise(() => Promise.all([read(), read()]))
  assert.lengthOf(
    children.filter(({ spawnargs }) => spawnargs.some((argument) => argument.endsWith("pack.ts"))),
    1
  )
  assert.strictEqual(first.type, "application/gzip")
  assert.isTrue(first.bytes.equals(second.bytes))
  const files = gunzipSync(first.bytes).toString("latin1")
  for (const file of ["package.json", "README.md", "LICENSE", "dist/client.js", "dist/client/VerifyOnly.d.ts"]) {
    assert.include(files, `package/${file}`)
  }
})

it.live("a document that could not be made is made at the next request", function* () {
  let attempts = 0
  const answer = fixedAnswer(
    Effect.sync(() => {
      attempts += 1
      assert.isAbove(attempts, 1)
      return { body: Buffer.from("made"), contentType: "text/plain" }
    })
  ).pipe(
    Effect.provideService(
      HttpServerRequest.HttpServerRequest,
      HttpServerRequest.fromWeb(new Request("http://127.0.0.1/"))
    )
  )
  assert.isTrue(Exit.isFailure(yield* Effect.exit(answer)))
  for (const _ of [1, 2]) assert.strictEqual((yield* answer).status, 200)
  assert.strictEqual(attempts, 2)
})

it.live("a browser keeps the script of the reference, which its page names by its hash", function* () {
  const { url } = yield* startServer({}, "api")
  const page = yield* send(url, { path: "/docs" })
  const [, script = "", version] = /<script src="([^"]+\?v=([^"]+))"/.exec(page.text) ?? []
  const viewer = yield* send(url, { path: `/${script}` })
  assert.strictEqual(viewer.headers["cache-control"], "public, max-age=31536000, immutable")
  assert.strictEqual(createHash("sha256").update(viewer.text).digest("base64url"), version)
  assert.strictEqual(page.headers["cache-control"], "no-cache")
  assert.isBelow(page.text.length, 4_000)
})

it.live("with PUBLIC_URL the documents and the redirect of / lead below it", function* () {
  const publicUrl = "https://api.example.com/crm"
  const { url } = yield* startServer({ PUBLIC_URL: publicUrl }, "api")
  const { llms, root } = yield* targets(url)
  assert.strictEqual(root, "/crm/docs")
  const { info } = decodeDocument((yield* send(url, { path: "/openapi.json" })).json)
  const introduced = linksOf(info.description).filter((target) => !target.includes("standardwebhooks"))
  assert.lengthOf(introduced, 5)
  for (const target of introduced) assert.isTrue(target.startsWith(`${publicUrl}/`), target)
  // The reference sends requests to the host of its page, and leads there.
  assert.include((yield* send(url, { path: "/docs/openapi.json" })).text, "](/crm/contract)")
  for (const target of llms) {
    assert.isTrue(target.startsWith(`${publicUrl}/`), target)
  }
  for (const path of ["/client", "/client.md", "/agents", "/agents.md"]) {
    const { text } = yield* send(url, { path })
    assert.include(text, `${publicUrl}/${path.startsWith("/client") ? "client.tgz" : "mcp"}`, path)
    assert.notInclude(text, "127.0.0.1:3000", path)
  }
})

it.live("/ leads to the console on the admin port, and is unknown to a worker", function* () {
  const port = yield* Effect.promise(freePort)
  const { url } = yield* startServer({ ADMIN_PORT: String(port) }, "worker")
  const answer = yield* send(`http://127.0.0.1:${port}`, { path: "/" })
  assert.deepStrictEqual([answer.status, answer.headers.location], [302, "/console"])
  assert.strictEqual((yield* send(url, { path: "/" })).status, 404)
})
