/** The catalog of sources, and the source of one conversation (contract §6, §8). `Projects.properties` tests their times. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { sourcePageOf } from "../support/MessagingAnswers.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { callsOf, conversations, httpChannel, open, telegramChannel } from "./Messages.support.ts"

const sandbox = (id: string, more: { readonly status?: "active" | "revoked"; readonly displayName?: string } = {}) =>
  ({ id, providerType: "sandbox", displayName: id, ...more }) as const

const start = Effect.fnUntraced(function* (parts: Parts) {
  const server = yield* TestServer
  const seeded = yield* server.seed(parts)
  return {
    ...callsOf(server, seeded),
    page: (query = "") => Effect.map(callsOf(server, seeded).sources(query), sourcePageOf)
  }
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the list of sources", (it) => {
  it.effect("has one source for each channel without its config", function* () {
    const before = new Date().toISOString()
    const { page, projectId } = yield* start({
      channels: [
        httpChannel("h", "https://provider.example/hook"),
        telegramChannel("t", "http://127.0.0.1:9"),
        sandbox("s", { displayName: "Sand 😀" }),
        sandbox("r", { status: "revoked" })
      ]
    })
    const after = new Date().toISOString()
    const { items, link, nextCursor } = yield* page()
    assert.deepStrictEqual([nextCursor, link], [null, undefined])
    const shown = items.map(({ connectedAt, id, revokedAt, ...rest }) => {
      assert.match(id, /^src_/)
      assert.isTrue(before <= connectedAt && connectedAt <= after)
      assert.strictEqual(revokedAt, rest.status === "revoked" ? connectedAt : null)
      return rest
    })
    const active = { status: "active", capabilities: { textReply: true } }
    assert.deepStrictEqual(
      shown.toSorted((left, right) => (left.channelId < right.channelId ? -1 : 1)),
      [
        { channelId: "h", providerType: "http", displayName: "h", ...active },
        {
          channelId: "r",
          providerType: "sandbox",
          displayName: "r",
          status: "revoked",
          capabilities: { textReply: false }
        },
        { channelId: "s", providerType: "sandbox", displayName: "Sand 😀", ...active },
        { channelId: "t", providerType: "telegram", displayName: "t", ...active }
      ]
    )
    assert.strictEqual(new Set(items.map(({ id }) => id)).size, 4)
    assert.notInclude(JSON.stringify(items), projectId)
  })

  it.effect("takes a cursor with or without expectedProjectId", function* () {
    const { page, projectId } = yield* start({ channels: [sandbox("a"), sandbox("b")] })
    const cursor = (yield* page("limit=1")).nextCursor ?? assert.fail("no next page")
    assert.lengthOf((yield* page(`cursor=${cursor}&expectedProjectId=${projectId}`)).items, 1)
    const sure = (yield* page(`limit=1&expectedProjectId=${projectId}`)).nextCursor ?? assert.fail("no next page")
    assert.lengthOf((yield* page(`cursor=${sure}`)).items, 1)
  })
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the source of a conversation", (it) => {
  it.effect("is its channel's source, revoked or not", function* () {
    const before = new Date().toISOString()
    const { source, sources } = yield* open(yield* TestServer)
    const { items } = sourcePageOf(yield* sources())
    for (const [channelId, id] of Object.entries(conversations)) {
      const shown = yield* source(id)
      assert.deepStrictEqual(shown, {
        conversationId: id,
        source: items.find((item) => item.channelId === channelId) ?? assert.fail("not in the catalog"),
        observedAt: shown.observedAt
      })
      assert.isTrue(before <= shown.observedAt && shown.observedAt <= new Date().toISOString())
      for (const other of [id.toUpperCase(), id.replace("a", "A")]) {
        assert.deepStrictEqual(yield* source(other), shown)
      }
    }
  })

  it.effect("changes with its channel, though the conversation does not", function* () {
    const { apply, source } = yield* open(yield* TestServer)
    const id = conversations.sandbox
    const before = yield* source(id)
    yield* apply({ channels: [{ id: "sandbox", providerType: "sandbox", displayName: "Gone", status: "revoked" }] })
    const after = yield* source(id)
    assert.deepStrictEqual(after, {
      ...before,
      source: {
        ...before.source,
        displayName: "Gone",
        status: "revoked",
        capabilities: { textReply: false },
        revokedAt: after.source.revokedAt
      }
    })
  })
})
