/** The catalog of sources, and the source of one conversation (contract §6, §8). */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { faultsOf, problemOf } from "../support/ContractAnswers.ts"
import { sourcePageOf } from "../support/MessagingAnswers.ts"
import { type Parts, TestServer } from "../support/TestServer.ts"
import { callsOf, conversations, httpChannel, open, sourcePath, telegramChannel } from "./Messages.support.ts"

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

/** Puts the next change at a later instant. */
const laterInstant = Effect.sleep("5 millis")

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the list of sources", (it) => {
  it.effect("has one source for each channel without its config", () =>
    Effect.gen(function* () {
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
  )

  it.effect("keeps ids and creation times when channels change", () =>
    Effect.gen(function* () {
      const { apply, page } = yield* start({ channels: [sandbox("a"), sandbox("b")] })
      const before = (yield* page()).items
      const ids = (of: typeof before) => of.map(({ channelId, connectedAt, id }) => [channelId, id, connectedAt])
      yield* laterInstant
      yield* apply({ channels: [{ ...httpChannel("a", "https://a.example/"), displayName: "New", status: "revoked" }] })
      const revoked = (yield* page()).items
      assert.deepStrictEqual(ids(revoked), ids(before))
      const a = revoked.find(({ channelId }) => channelId === "a") ?? assert.fail("not there")
      assert.deepInclude(a, {
        providerType: "http",
        displayName: "New",
        status: "revoked",
        capabilities: { textReply: false }
      })
      assert.isAbove(Date.parse(String(a.revokedAt)), Date.parse(String(a.connectedAt)))
      // A repeated revocation keeps its time, and a revoked channel can become active again.
      yield* laterInstant
      yield* apply({
        channels: [{ ...httpChannel("a", "https://a.example/"), displayName: "Newer", status: "revoked" }]
      })
      const again = (yield* page()).items.find(({ channelId }) => channelId === "a") ?? assert.fail("not there")
      assert.deepInclude(again, { displayName: "Newer", revokedAt: a.revokedAt })
      yield* apply({ channels: [{ ...httpChannel("a", "https://a.example/"), status: "active" }] })
      const back = (yield* page()).items
      assert.deepStrictEqual(ids(back), ids(before))
      assert.isTrue(back.every(({ capabilities, revokedAt }) => capabilities.textReply && revokedAt === null))
    })
  )

  it.effect("takes a cursor with or without expectedProjectId", () =>
    Effect.gen(function* () {
      const { page, projectId } = yield* start({ channels: [sandbox("a"), sandbox("b")] })
      const cursor = (yield* page("limit=1")).nextCursor ?? assert.fail("no next page")
      assert.lengthOf((yield* page(`cursor=${cursor}&expectedProjectId=${projectId}`)).items, 1)
      const sure = (yield* page(`limit=1&expectedProjectId=${projectId}`)).nextCursor ?? assert.fail("no next page")
      assert.lengthOf((yield* page(`cursor=${sure}`)).items, 1)
    })
  )

  it.effect("answers project_mismatch for another expectedProjectId", () =>
    Effect.gen(function* () {
      const { page, projectId, sources } = yield* start({ channels: [sandbox("a")] })
      const neighbour = yield* start({ channels: [sandbox("b")] })
      assert.deepStrictEqual(yield* page(`expectedProjectId=${projectId}`), yield* page())
      for (const expected of [neighbour.projectId, "nobody", projectId.toUpperCase(), `${projectId}%20`]) {
        problemOf(yield* sources(`expectedProjectId=${expected}`), 400, "project_mismatch")
        problemOf(yield* sources(`expectedProjectId=${expected}&cursor=a`), 400, "project_mismatch")
      }
      for (const wrong of ["", "x".repeat(161)]) {
        assert.deepStrictEqual(faultsOf(yield* sources(`expectedProjectId=${wrong}`)), ["query/expectedProjectId"])
      }
    })
  )
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("the source of a conversation", (it) => {
  it.effect("is its channel's source, revoked or not", () =>
    Effect.gen(function* () {
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
  )

  it.effect("is the new channel's when the conversation has moved", () =>
    Effect.gen(function* () {
      const { apply, source } = yield* open(yield* TestServer)
      const id = conversations.http
      const first = yield* source(id)
      yield* laterInstant
      // A new address does not move the conversation.
      yield* apply({ conversations: [{ id, channelId: "http", address: "other" }] })
      assert.strictEqual((yield* source(id)).observedAt, first.observedAt)
      yield* apply({ conversations: [{ id: id.toUpperCase(), channelId: "sandbox", address: "other" }] })
      const moved = yield* source(id)
      assert.strictEqual(moved.source.channelId, "sandbox")
      assert.isAbove(Date.parse(moved.observedAt), Date.parse(first.observedAt))
      yield* laterInstant
      yield* apply({ conversations: [{ id, channelId: "http", address: "other" }] })
      const back = yield* source(id)
      assert.deepStrictEqual(back.source, first.source)
      assert.isAbove(Date.parse(back.observedAt), Date.parse(moved.observedAt))
      // Other conversations are not moved.
      assert.strictEqual((yield* source(conversations.sandbox)).observedAt, first.observedAt)
    })
  )

  it.effect("changes with its channel, though the conversation does not", () =>
    Effect.gen(function* () {
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
  )

  it.effect("answers project_mismatch before it looks for the conversation", () =>
    Effect.gen(function* () {
      const { projectId, server, source, token } = yield* open(yield* TestServer)
      const neighbour = yield* open(server)
      const id = conversations.http
      assert.deepStrictEqual(yield* source(id, `?expectedProjectId=${projectId}`), yield* source(id))
      // The other project has a different conversation with the same id.
      assert.notStrictEqual((yield* neighbour.source(id)).source.id, (yield* source(id)).source.id)
      const ask = (id: string, expected: string) =>
        server.send({ path: `${sourcePath(id)}?expectedProjectId=${expected}`, token })
      for (const each of [id, "0193f0cb-d4e5-4f70-8192-0000000000ff"]) {
        problemOf(yield* ask(each, neighbour.projectId), 400, "project_mismatch")
        problemOf(yield* ask(each, "nobody"), 400, "project_mismatch")
      }
      problemOf(yield* ask("0193f0cb-d4e5-4f70-8192-0000000000ff", projectId), 404, "conversation_not_found")
      assert.deepStrictEqual(faultsOf(yield* ask("nobody", "")), ["path/conversationId", "query/expectedProjectId"])
    })
  )
})
