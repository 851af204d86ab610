/** What a send takes, and what its provider sees of it (contract §1, §8; specification 4.2). */
import { assert, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Webhook } from "standardwebhooks"
import type { Hit } from "../integrations/Deliveries.support.ts"
import { problemOf } from "../support/ContractAnswers.ts"
import { messageReceiptOf } from "../support/MessagingAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"
import {
  address,
  botToken,
  conversations,
  open,
  sentBodyOf,
  signingSecret,
  telegramChannel,
  text
} from "./Messages.support.ts"

const strings = Schema.decodeUnknownSync(Schema.Record(Schema.String, Schema.String))

/** Texts that somebody could cut, trim, escape or take for something else. */
const texts = [
  "x",
  " ",
  "\n",
  "  two\r\nlines\t ",
  "😀".repeat(4096),
  "é".repeat(4096),
  "e\u0301".repeat(2048),
  "\u2028\u2029\u200b\ufeff",
  "\u202eright to left",
  "<b>&amp;</b> *_`[",
  '{"text":"no"}',
  "\\ \\u0041 \" '",
  "\u0001\u001f\u007f\u0080\u009f",
  "👩‍👩‍👧‍👦🇩🇪",
  "null"
]

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a request to a provider", (it) => {
  it.effect("over http contains the signed message under its id, and nothing else", () =>
    Effect.gen(function* () {
      const { provider, send } = yield* open(yield* TestServer)
      const key = newKey()
      const before = Math.floor(Date.now() / 1000)
      const { messageId } = messageReceiptOf(yield* send("http", key))
      const [hit = assert.fail("nothing came")] = provider.hits
      assert.strictEqual(hit.response.req.method, "POST")
      assert.strictEqual(hit.path, "/hook")
      assert.deepStrictEqual(sentBodyOf(hit), {
        messageId,
        conversationId: conversations.http,
        recipient: address,
        text
      })
      const { headers } = hit
      assert.match(String(headers["content-type"]), /^application\/json(; ?charset=utf-8)?$/i)
      assert.strictEqual(headers["idempotency-key"], messageId)
      assert.strictEqual(headers["webhook-id"], messageId)
      const timestamp = Number(headers["webhook-timestamp"])
      assert.isTrue(timestamp >= before && timestamp <= Date.now() / 1000, String(timestamp))
      // An outside judge.
      assert.isObject(new Webhook(signingSecret).verify(hit.body, strings(headers)))
      assert.throws(() => new Webhook(signingSecret).verify(`${hit.body} `, strings(headers)))
      assertStranger(hit, key)
      assert.notProperty(headers, "authorization")
    })
  )

  it.effect("over telegram is sendMessage of the bot with the chat and the text, and nothing else", () =>
    Effect.gen(function* () {
      const { apply, ask, provider, send } = yield* open(yield* TestServer)
      const key = newKey()
      messageReceiptOf(yield* send("telegram", key))
      // With a path of its own before that of the Bot API, as a proxy would have.
      const apiBaseUrl = `http://127.0.0.1:${provider.port}/proxy/`
      yield* apply({ channels: [telegramChannel("telegram", apiBaseUrl)] })
      messageReceiptOf(yield* ask(conversations.telegram, { text: "Again" }))
      const [first = assert.fail("nothing came"), second] = provider.hits
      assert.strictEqual(first.response.req.method, "POST")
      assert.deepStrictEqual(
        [first.path, second?.path],
        [`/bot${botToken}/sendMessage`, `/proxy/bot${botToken}/sendMessage`]
      )
      assert.deepStrictEqual(sentBodyOf(first), { chat_id: address, text })
      assert.match(String(first.headers["content-type"]), /^application\/json(; ?charset=utf-8)?$/i)
      assertStranger(first, key)
    })
  )

  it.effect("contains the text unchanged", () =>
    Effect.gen(function* () {
      const { ask, provider } = yield* open(yield* TestServer)
      for (const to of ["http", "telegram"] as const) {
        for (const each of texts) {
          messageReceiptOf(yield* ask(conversations[to], { text: each }))
          const hit = provider.hits.at(-1) ?? assert.fail("nothing came")
          assert.strictEqual(sentBodyOf(hit).text, each)
        }
      }
      assert.strictEqual(provider.hits.length, 2 * texts.length)
    })
  )

  it.effect("contains the text of its own conversation under concurrency", () =>
    Effect.gen(function* () {
      const server = yield* TestServer
      const projects = [yield* open(server), yield* open(server)]
      const sends = projects.flatMap(({ ask, projectId }) =>
        Array.from({ length: 20 }, (_, n) => ask(conversations.http, { text: `${projectId} ${n}` }))
      )
      const answers = yield* Effect.all(sends, { concurrency: "unbounded" })
      const ids = answers.map((answer) => messageReceiptOf(answer).messageId)
      for (const [index, { projectId, provider }] of projects.entries()) {
        const seen = provider.hits.map((hit) => {
          const body = sentBodyOf(hit)
          assert.strictEqual(hit.headers["idempotency-key"], "messageId" in body ? body.messageId : "")
          return `${"messageId" in body ? body.messageId : ""} ${body.text}`
        })
        const expected = Array.from({ length: 20 }, (_, n) => `${ids[index * 20 + n] ?? ""} ${projectId} ${n}`)
        assert.deepStrictEqual(seen.toSorted(), expected.toSorted())
      }
    })
  )
})

/** Nothing of the caller reaches a provider: not its token, nor its key, nor the project. */
const assertStranger = ({ body, headers }: Hit, key: string) => {
  const everything = `${JSON.stringify(headers)} ${body}`
  for (const own of ["dk_", key, "prj_", "src_"]) assert.notInclude(everything, own)
}

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a send of a message", (it) => {
  it.effect("with another expectedProjectId is refused before anything is read, written or sent", () =>
    Effect.gen(function* () {
      const { ask, projectId, provider, rows, sent } = yield* open(yield* TestServer)
      const neighbour = yield* open(yield* TestServer)
      const key = newKey()
      const { messageId } = yield* sent(key)
      const others = [neighbour.projectId, "nobody", ` ${projectId}`, projectId.toUpperCase(), "x".repeat(160)]
      for (const expectedProjectId of others) {
        for (const id of [...Object.values(conversations), "0193f0cb-d4e5-4f70-8192-0000000000ff"]) {
          for (const used of [newKey(), key]) {
            problemOf(yield* ask(id, { text, expectedProjectId }, used), 400, "project_mismatch")
          }
        }
      }
      assert.deepStrictEqual(
        (yield* rows).map(({ id }) => id),
        [messageId]
      )
      assert.deepStrictEqual([provider.hits.length, neighbour.provider.hits.length], [0, 0])
      // And what it has not made, it does not repeat.
      const another = newKey()
      problemOf(yield* ask(conversations.http, { text, expectedProjectId: "nobody" }, another), 400, "project_mismatch")
      assert.isFalse(messageReceiptOf(yield* ask(conversations.http, { text }, another)).replayed)
    })
  )

  it.effect("uses the conversation's current address", () =>
    Effect.gen(function* () {
      const { apply, provider, send } = yield* open(yield* TestServer)
      yield* apply({ conversations: [{ id: conversations.http, channelId: "http", address: "somewhere else" }] })
      messageReceiptOf(yield* send("http"))
      yield* apply({ conversations: [{ id: conversations.http, channelId: "telegram", address: "4711" }] })
      messageReceiptOf(yield* send("http"))
      const [first, second] = provider.hits.map(sentBodyOf)
      assert.deepInclude(first, { recipient: "somewhere else" })
      assert.deepStrictEqual(second, { chat_id: "4711", text })
    })
  )
})
