/** The catalog of sources, and the source of one conversation (contract §6, §8). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { sourcePageOf } from "../support/MessagingAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { conversations, open } from "./Messages.support.ts"

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the sources of a project", (it) => {
  it.effect("are one for each channel, without its config, which is that of its conversations", function* () {
    const before = new Date().toISOString()
    const { projectId, source, sources } = yield* open(yield* TestServer)
    const { items, link, nextCursor } = sourcePageOf(yield* sources())
    const after = new Date().toISOString()
    assert.deepStrictEqual([nextCursor, link], [null, undefined])
    assert.lengthOf(items, 5)
    assert.strictEqual(new Set(items.map(({ id }) => id)).size, 5)
    assert.notInclude(JSON.stringify(items), projectId)
    for (const [channelId, id] of Object.entries(conversations)) {
      const item = items.find((item) => item.channelId === channelId) ?? assert.fail("not in the catalog")
      assert.match(item.id, /^src_/)
      assert.isTrue(before <= item.connectedAt && item.connectedAt <= after)
      const isRevoked = channelId === "revoked"
      assert.deepStrictEqual(item, {
        id: item.id,
        channelId,
        providerType: channelId === "sandbox" || channelId === "telegram" ? channelId : "http",
        displayName: channelId,
        status: isRevoked ? "revoked" : "active",
        capabilities: { textReply: !isRevoked },
        connectedAt: item.connectedAt,
        revokedAt: isRevoked ? item.connectedAt : null
      })
      const shown = yield* source(id)
      assert.deepStrictEqual(shown, { conversationId: id, source: item, observedAt: shown.observedAt })
      assert.isTrue(before <= shown.observedAt && shown.observedAt <= new Date().toISOString())
      for (const other of [id.toUpperCase(), id.replace("a", "A")]) {
        assert.deepStrictEqual(yield* source(other), shown)
      }
    }
  })

  it.effect("are listed by a cursor with or without expectedProjectId", function* () {
    const { projectId, sources } = yield* open(yield* TestServer)
    const page = (query: string) => Effect.map(sources(query), sourcePageOf)
    const cursor = (yield* page("limit=4")).nextCursor ?? assert.fail("no next page")
    assert.lengthOf((yield* page(`cursor=${cursor}&expectedProjectId=${projectId}`)).items, 1)
    const sure = (yield* page(`limit=4&expectedProjectId=${projectId}`)).nextCursor ?? assert.fail("no next page")
    assert.lengthOf((yield* page(`cursor=${sure}`)).items, 1)
  })

  it.effect("change with their channel, though the conversation does not", function* () {
    const { apply, source } = yield* open(yield* TestServer)
    const id = conversations.sandbox
    const before = yield* source(id)
    yield* apply({ channels: [{ id: "sandbox", providerType: "sandbox", displayName: "Gone 😀", status: "revoked" }] })
    const after = yield* source(id)
    assert.deepStrictEqual(after, {
      ...before,
      source: {
        ...before.source,
        displayName: "Gone 😀",
        status: "revoked",
        capabilities: { textReply: false },
        revokedAt: after.source.revokedAt
      }
    })
  })
})
