/** A project with a channel and a conversation for every provider; all channels lead to one receiver of the test. */
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { type Answering, bodyOf, type Hit, receiver } from "../webhooks/delivery/Deliveries.support.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { type AttemptShape, conversationSourceOf, messageReceiptOf } from "../support/MessagingAnswers.ts"
import type { Parts, Seeded, TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"

export const signingSecret = `whsec_${Buffer.alloc(32, 9).toString("base64")}`
const botToken = "123456:AAEhBOweik6ad9r-QXPENQjcrGbqCr4K"
export const address = "+4915112345678"
/** A text that is recognised wherever it must not appear. */
export const text = "Your machine is ready: 20 € 🚲"

/** Conversations by channel. Nothing listens on the port of `nobody`. */
export const conversations = {
  http: "0193f0cb-d4e5-4f70-8192-0000000000a1",
  telegram: "0193f0cb-d4e5-4f70-8192-0000000000b2",
  sandbox: "0193f0cb-d4e5-4f70-8192-0000000000c3",
  revoked: "0193f0cb-d4e5-4f70-8192-0000000000d4",
  nobody: "0193f0cb-d4e5-4f70-8192-0000000000e5"
} as const
export type Conversation = keyof typeof conversations

const base = "/api/v1/developer/messaging"
export const messagesPath = (conversationId: string) => `${base}/conversations/${conversationId}/messages`
const sourcePath = (conversationId: string) => `${base}/conversations/${conversationId}/source`
const sourcesPath = `${base}/sources`

export const httpChannel = (id: string, url: string) =>
  ({ id, providerType: "http", displayName: id, config: { url, signingSecret } }) as const
export const telegramChannel = (id: string, apiBaseUrl: string) =>
  ({ id, providerType: "telegram", displayName: id, config: { apiBaseUrl, token: botToken } }) as const

const partsAt = (port: number): Parts => ({
  channels: [
    httpChannel("http", `http://127.0.0.1:${port}/hook`),
    telegramChannel("telegram", `http://127.0.0.1:${port}`),
    { id: "sandbox", providerType: "sandbox", displayName: "sandbox" },
    { ...httpChannel("revoked", `http://127.0.0.1:${port}/hook`), status: "revoked" },
    httpChannel("nobody", "http://127.0.0.1:9/")
  ],
  conversations: Object.entries(conversations).map(([channelId, id]) => ({ id, channelId, address }))
})

const isTelegram = ({ path }: Hit) => path.includes("/bot")

/** Answers with a status and a body of JSON. */
export const json =
  (status: number, body: object, headers: Readonly<Record<string, string>> = {}): Answering =>
  ({ response }) =>
    void response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body))

/** Accepts the message in the provider's format; the returned id contains the number of earlier messages. */
export const taken: Answering = (hit, n) =>
  json(200, isTelegram(hit) ? { ok: true, result: { message_id: 8000 + n } } : { providerMessageId: `p-${8000 + n}` })(
    hit,
    n
  )

/** Closes the connection after it has received the message. */
export const reset: Answering = ({ response }) => void response.socket?.destroy()

/** Gives these answers in order, then the last one to all further messages. */
export const script =
  (...answers: readonly [Answering, ...ReadonlyArray<Answering>]): Answering =>
  (hit, n) =>
    (answers[Math.min(n, answers.length - 1)] ?? answers[0])(hit, n)

/** Holds every answer back until `letGo` is called. */
export const held = (answer: Answering = taken) => {
  const waiting: Array<() => void> = []
  let isOpen = false
  const answering: Answering = (hit, n) => (isOpen ? answer(hit, n) : void waiting.push(() => answer(hit, n)))
  return {
    answering,
    letGo: () => {
      isOpen = true
      for (const go of waiting.splice(0)) go()
    }
  }
}

/** SQL of the attempts as answers have them: without the words of providers. */
const answeredLog = `(
  SELECT jsonb_agg(entry - 'reason' ORDER BY place) FROM jsonb_array_elements(attempt_log) WITH ORDINALITY AS log (entry, place))`

export interface MessageRow {
  readonly status: string
  readonly attempts: number
  readonly attempting: boolean
  readonly availableAt: Date | null
  readonly log: ReadonlyArray<AttemptShape>
}

/** The state of a message as if another process had left it. */
interface Left {
  readonly status: string
  readonly attempting?: boolean
  /** In milliseconds from now; null: no further attempt. */
  readonly availableIn?: number | null
  readonly createdAgo?: number
  /** The members of the last attempt that differ. */
  readonly attempt?: object
}

/** The attempt of a message that is in flight. */
export const begun = {
  status: "pending",
  finishedAt: null,
  providerMessageId: null,
  errorCode: null,
  nextAttemptAt: null
}

/** The possible states of a message; the lease ends, or the next attempt is due, in a number of milliseconds. */
export const placesIn = (availableIn: number) => {
  const over = { ...begun, finishedAt: new Date(0).toISOString(), errorCode: "x" }
  const nextAttemptAt = new Date(0).toISOString()
  const unknown = { ...over, status: "unknown" }
  // Created some time ago, so that no request waits for the call.
  const pending = { status: "pending", createdAgo: 3_600_000 }
  return {
    pending: { ...pending, attempting: true, availableIn, attempt: begun },
    "retrying, waiting": { status: "retrying", availableIn, attempt: { ...over, status: "retrying", nextAttemptAt } },
    "retrying, under way": { status: "retrying", attempting: true, availableIn, attempt: begun },
    "unknown, waiting": { status: "unknown", availableIn, attempt: { ...unknown, nextAttemptAt } },
    "unknown, under way": { status: "unknown", attempting: true, availableIn, attempt: begun },
    "unknown, for good": { status: "unknown", attempt: unknown },
    sent: { status: "sent" },
    failed: { status: "failed", attempt: { ...over, status: "rejected" } }
  } as const satisfies Readonly<Record<string, Left>>
}

/** Returns calls on a project's conversations with one of its tokens, through any server with its database. */
export const callsOf = (server: TestServer["Service"], { projectId, token }: Seeded) => {
  const { sql } = server
  const ask = (id: string, body: unknown, key = newKey()) =>
    Effect.tap(server.send({ method: "POST", path: messagesPath(id), token, key, json: body }), (answer) =>
      Effect.sync(() => assertDiscreet(answer))
    )
  return {
    server,
    projectId,
    token,
    ask,
    /** Sends `text` under a key. */
    send: (to: Conversation, key?: string) => ask(conversations[to], { text }, key),
    /** Sends `text` over the sandbox under a key; returns the receipt. */
    sent: (key: string) => Effect.map(ask(conversations.sandbox, { text }, key), messageReceiptOf),
    row: (id: string | null | undefined) =>
      Effect.map(
        Effect.orDie(sql<MessageRow>`
          SELECT status, attempts, attempting, available_at AS "availableAt", ${sql.literal(answeredLog)} AS log
          FROM messages WHERE project_id = ${projectId} AND id = ${id ?? ""}`),
        ([row = assert.fail("no message")]) => row
      ),
    rows: Effect.orDie(sql<MessageRow & { readonly id: string; readonly provider: string }>`
      SELECT id, provider_type AS provider, status, attempts, attempting, available_at AS "availableAt", ${sql.literal(answeredLog)} AS log
      FROM messages WHERE project_id = ${projectId} ORDER BY created_at, id`),
    /** Stores a message and its last attempt in the given state; `now` is the time of the service. */
    leave: (
      id: string,
      { attempt = {}, attempting = false, availableIn = null, createdAgo = 0, status }: Left,
      now = Date.now()
    ) =>
      Effect.orDie(sql`
        UPDATE messages SET status = ${status}, attempting = ${attempting},
          available_at = ${availableIn === null ? null : new Date(now + availableIn)},
          created_at = ${new Date(now - createdAgo)}, updated_at = ${new Date(now - createdAgo)},
          attempt_log = jsonb_set(attempt_log, '{-1}', attempt_log -> -1 || ${JSON.stringify(attempt)}::jsonb)
        WHERE project_id = ${projectId} AND id = ${id}`),
    /** Makes a waiting message due, or ends its lease. */
    age: (id: string | null | undefined) =>
      Effect.orDie(sql`
        UPDATE messages SET available_at = '2020-01-01T00:00:00Z'
        WHERE project_id = ${projectId} AND id = ${id ?? ""} AND available_at IS NOT NULL`),
    apply: (parts: Parts) => server.apply(projectId, parts),
    source: (id: string, query = "") =>
      Effect.map(server.send({ path: `${sourcePath(id)}${query}`, token }), conversationSourceOf),
    sources: (query = "") => server.send({ path: query === "" ? sourcesPath : `${sourcesPath}?${query}`, token })
  }
}

/** Asserts that an answer contains neither data of the channel nor the recipient nor the text. */
const assertDiscreet = ({ headers, text: body }: Answer) => {
  const everything = `${JSON.stringify(headers)} ${body}`
  for (const secret of [signingSecret.slice(6), botToken, address, text, "127.0.0.1", "/hook", "sendMessage"]) {
    assert.notInclude(everything, secret)
  }
}

/** Creates a project whose messages go to a receiver with these answers. */
export const open = Effect.fnUntraced(function* (server: TestServer["Service"], answering: Answering = taken) {
  const provider = yield* receiver(answering)
  const seeded = yield* server.seed(partsAt(provider.port))
  return { ...callsOf(server, seeded), seeded, provider }
})

const TelegramBody = Schema.Struct({ chat_id: Schema.String, text: Schema.String })
const HttpBody = Schema.Struct({
  messageId: Schema.String,
  conversationId: Schema.String,
  recipient: Schema.String,
  text: Schema.String
})
const decode = Schema.decodeUnknownSync(Schema.Union([HttpBody, TelegramBody]), { onExcessProperty: "error" })

/** Decodes the body that a provider received; it has exactly the members of contract §8. */
export const sentBodyOf = (hit: Hit) => decode(bodyOf(hit))
