/** Requests of sends, and the requests that providers get for them (contract §1, §8; specification 4.2). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect } from "effect"
import { messageReceiptOf } from "../support/MessagingAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { conversations, open, sentBodyOf, text } from "./Messages.support.ts"

/** Texts that could be cut, trimmed, escaped or parsed by mistake. */
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
  it.effect("contains the text unchanged", function* () {
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

  it.effect("contains the text of its own conversation under concurrency", function* () {
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
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a send of a message", (it) => {
  it.effect("uses the conversation's current address", function* () {
    const { apply, provider, send } = yield* open(yield* TestServer)
    yield* apply({ conversations: [{ id: conversations.http, channelId: "http", address: "somewhere else" }] })
    messageReceiptOf(yield* send("http"))
    yield* apply({ conversations: [{ id: conversations.http, channelId: "telegram", address: "4711" }] })
    messageReceiptOf(yield* send("http"))
    const [first, second] = provider.hits.map(sentBodyOf)
    assert.deepInclude(first, { recipient: "somewhere else" })
    assert.deepStrictEqual(second, { chat_id: "4711", text })
  })
})
