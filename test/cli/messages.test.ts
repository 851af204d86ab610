/** The command `messages`: its input and output, and the later answers to callers (contract §13). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Redacted } from "effect"
import { type Conversation, open, reset } from "../contract/Messages.support.ts"
import { newKey } from "../contract/Requests.ts"
import { type Answering } from "../webhooks/delivery/Deliveries.support.ts"
import { messageReceiptOf, unknownOf } from "../support/MessagingAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { at, documentOf, run } from "./Cli.support.ts"

const hour = 3_600_000

const start = Effect.fnUntraced(function* (answering?: Answering) {
  const server = yield* TestServer
  const project = yield* open(server, answering)
  const env = at(Redacted.make(server.databaseUrl))
  const messages = (...args: ReadonlyArray<string>) => run(["messages", ...args], { env })
  const list = (...flags: ReadonlyArray<string>) => messages("list", "--project", project.projectId, ...flags)
  const settle = (id: string, as: string, ...flags: ReadonlyArray<string>) =>
    messages("settle", "--project", project.projectId, "--message", id, "--as", as, ...flags)
  const everything = Effect.orDie(server.sql`
    SELECT to_jsonb(messages) AS message FROM messages WHERE project_id = ${project.projectId} ORDER BY id`)
  return {
    ...project,
    env,
    messages,
    list,
    settle,
    everything,
    /** Sends a message whose outcome is unknown; returns its id and its idempotency key. */
    lost: Effect.fnUntraced(function* (to: Conversation) {
      const key = newKey()
      const { messageId } = unknownOf(yield* project.send(to, key))
      return { key, id: messageId ?? assert.fail("no id") }
    })
  }
})

/** Runs independent commands concurrently. */
const together = <A>(commands: ReadonlyArray<Effect.Effect<A>>) => Effect.all(commands, { concurrency: 4 })

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("messages list", (it) => {
  it.effect("prints every message of the project and of no other, newest first", function* () {
    const { sql } = yield* TestServer
    const { everything, leave, list, projectId, send, sent } = yield* start()
    assert.deepStrictEqual(documentOf(yield* list("--json")), { items: [], next: null })
    assert.deepStrictEqual(yield* list(), { status: 0, stdout: "No messages\n", stderr: "" })

    const states = ["pending", "retrying", "unknown", "sent", "failed"]
    const waiting = ["pending", "retrying", "unknown"]
    const items: Array<object> = []
    for (const [index, status] of [...states, "sent"].entries()) {
      const { conversationId, messageId } = yield* sent(newKey())
      const createdAt = new Date(Date.UTC(2026, 0, 1 + index))
      const waits = status === "pending" ? { attempting: true, availableIn: hour } : {}
      yield* leave(messageId, { status, ...waits }, createdAt.getTime())
      items.unshift({ messageId, conversationId, deliveryStatus: status, createdAt: createdAt.toISOString() })
    }
    // The messages of campaigns are among them.
    const [first = assert.fail("no message")] = yield* sql`
      INSERT INTO messages (project_id, id, campaign_id, audience_id, position, channel_id, provider_type, address, text, status,
        attempts, attempting, attempt_log, traceparent, created_at, updated_at)
      VALUES (${projectId}, 'msg_campaign', 'cmp', 'aud', 0, 'sandbox', 'sandbox', 'a', 'Text', 'unknown', 1, false, '[]', '',
        '2026-01-20', '2026-01-20')
      RETURNING id AS "messageId", conversation_id AS "conversationId", status AS "deliveryStatus",
        '2026-01-20T00:00:00.000Z' AS "createdAt"`
    items.unshift(first)
    const neighbour = yield* start()
    const other = messageReceiptOf(yield* neighbour.send("http"))

    const before = yield* everything
    assert.deepStrictEqual(documentOf(yield* list("--json")), { items, next: null })
    const filtered = yield* together(waiting.map((status) => list("--json", "--status", status)))
    for (const [index, status] of waiting.entries()) {
      const [ended = assert.fail("not listed")] = filtered.slice(index)
      assert.deepStrictEqual(documentOf(ended), {
        items: items.filter((item) => "deliveryStatus" in item && item.deliveryStatus === status),
        next: null
      })
    }
    const table = yield* list("--status", "sent")
    assert.deepStrictEqual([table.status, table.stderr], [0, ""])
    assert.lengthOf(table.stdout.trim().split("\n"), 3)
    assert.notInclude(`${table.stdout}${(yield* list("--json")).stdout}`, other.messageId)
    assert.deepStrictEqual(documentOf(yield* neighbour.list("--json")), {
      items: [
        {
          messageId: other.messageId,
          conversationId: other.conversationId,
          deliveryStatus: "sent",
          createdAt: other.createdAt
        }
      ],
      next: null
    })
    assert.deepStrictEqual(yield* everything, before)
    assert.strictEqual(messageReceiptOf(yield* send("sandbox")).deliveryStatus, "sent")
  })
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("messages settle", (it) => {
  it.effect("settles a message once, and prints the result", function* () {
    const { everything, lost, settle } = yield* start(reset)
    const { id } = yield* lost("telegram")
    const first = yield* settle(id, "sent")
    assert.deepStrictEqual([first.status, first.stderr], [0, ""])
    assert.include(first.stdout, id)
    const before = yield* everything
    // `messaging/Messages.states` tests from which states a message is settled.
    for (const [other, ...words] of [
      [yield* settle(id, "failed"), id, "sent"],
      [yield* settle("msg_none", "sent"), "msg_none"]
    ] as const) {
      assert.deepStrictEqual([other.status, other.stdout, other.stderr.trim().split("\n").length], [1, "", 1])
      for (const word of words) assert.include(other.stderr, word)
    }
    assert.deepStrictEqual(yield* everything, before)
  })
})
