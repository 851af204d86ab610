/** A project with a conversation over each kind of provider, sends into them, and the states of the messages. */
import { Schema } from "effect"
import { randomBytes } from "node:crypto"
import { assert } from "@effect/vitest"
import { MessageReceipt } from "../../src/api/messaging/Messaging.ts"
import { type Service, startService } from "../support/Process.ts"
import { untilSessionsEnd, project, serviceEnv, unlimited } from "./Projects.support.ts"
import { channelsOf, type Entry, type Kind, kinds, startProvider } from "./Providers.support.ts"
import { type Answer, bearer, type Call, kindOf, send, sendOpen } from "./Requests.support.ts"
import { lastingSession } from "./Shop.support.ts"
import { eventually } from "../support/Waiting.ts"

/** A message that a caller sends. Its text is also its key, and unique. */
export interface TestMessage {
  readonly kind: Kind
  readonly text: string
}

/** Creates `count` messages of each kind. */
export const testMessages = (name: string, count = 1): ReadonlyArray<TestMessage> =>
  Array.from({ length: count }, (_, n) => kinds.map((kind) => ({ kind, text: `${name}-${n}-${kind}` }))).flat()

export const testMessage = (name: string, kind: Kind): TestMessage => ({ kind, text: `${name}-${kind}` })

/** Addresses that must be visible to the provider only. */
export const recipients = { http: "+4915550001111", telegram: "99887766554433" }

const conversations = { http: "0193f0cb-d4e5-7f70-8192-03a4b5c6d7e8", telegram: "0193f0cb-d4e5-7f70-8192-03a4b5c6d7e9" }

/** Starts a service whose calls and leases outlast the tests, so that they end only when a test ends them. */
export const start = (
  databaseUrl: string,
  role: "all" | "api" | "worker" = "all",
  env: Readonly<Record<string, string>> = {}
): Promise<Service> =>
  startService({ env: { ...serviceEnv(databaseUrl), PROVIDER_TIMEOUT: "60s", ...env }, args: ["--role", role] })

/** Returns an answer in short: `200 sent`, `503 provider_outcome_unknown`. */
export const resultOf = (answer: Answer): string =>
  isReceipt(answer.json) ? `${answer.status} ${answer.json.deliveryStatus}` : kindOf(answer)

const isReceipt = Schema.is(MessageReceipt)

export const sent = "200 sent"
export const pending = "200 pending"
export const retrying = "200 retrying"
export const unknown = "503 provider_outcome_unknown"

export const expectSent = (answer: Answer, replayed = false) =>
  assert.deepStrictEqual(
    [resultOf(answer), answer.headers["idempotent-replayed"]],
    [sent, replayed ? "true" : undefined]
  )

/** The statement that commits a message with its first attempt. */
export const creates = /INSERT INTO messages /
/** The statement that records the outcomes of attempts. */
export const records = /UPDATE messages SET status = "to"/

/** The state of a message in the database. */
export interface State {
  readonly status: string
  readonly attempting: boolean
  /** The status of each attempt, with its error if it has one. */
  readonly attempts: ReadonlyArray<string>
}

const StateRow = Schema.Struct({
  status: Schema.String,
  attempting: Schema.Boolean,
  attempts: Schema.Array(Schema.String)
})

/** A running service, in any process. */
type Api = Pick<Service, "url">

export type Scene = Awaited<ReturnType<typeof openScene>>

/** Opens a project with its own providers. */
export const openScene = async (databaseUrl: string, rateLimits: object = unlimited) => {
  const provider = await startProvider()
  const id = `p-${randomBytes(6).toString("hex")}`
  const token = await project(databaseUrl, {
    project: { id, name: id, rateLimits },
    channels: channelsOf(provider),
    conversations: kinds.map((kind) => ({ id: conversations[kind], channelId: kind, address: recipients[kind] }))
  })
  const query = await lastingSession(databaseUrl)
  const ofProject = `WHERE project_id = '${id}'`
  /** All receipts that were received. */
  const receipts: Array<{ readonly testMessage: TestMessage; readonly receipt: MessageReceipt }> = []

  const recordAnswer = (testMessage: TestMessage, answer: Answer) => {
    if (answer.status === 200) {
      receipts.push({ testMessage, receipt: Schema.decodeUnknownSync(MessageReceipt)(answer.json) })
    }
    return answer
  }
  const callOf = ({ text }: TestMessage, headers: Readonly<Record<string, string>> = {}): Call => ({
    method: "POST",
    headers: { ...bearer(token), "idempotency-key": text, ...headers },
    json: { text }
  })
  const pathOf = ({ kind }: TestMessage) => `/api/v1/developer/messaging/conversations/${conversations[kind]}/messages`

  const post = (service: Api, testMessage: TestMessage, headers?: Readonly<Record<string, string>>): Promise<Answer> =>
    send(`${service.url}${pathOf(testMessage)}`, callOf(testMessage, headers)).then((answer) =>
      recordAnswer(testMessage, answer)
    )

  const state = async ({ text }: TestMessage): Promise<State | "none"> => {
    const [row] = await query(`
      SELECT status, attempting, ARRAY(
        SELECT concat_ws(' ', entry ->> 'status', entry ->> 'errorCode') FROM jsonb_array_elements(attempt_log) AS entry
      ) AS attempts FROM messages ${ofProject} AND text = '${text}'`)
    return row === undefined ? "none" : Schema.decodeUnknownSync(StateRow)(row)
  }

  return {
    id,
    provider,
    token,
    receipts,
    query,
    /** Sends the message, or repeats the send to read its state. */
    post,
    /** Sends it as a caller who can disconnect. */
    call: (service: Api, testMessage: TestMessage) => {
      const { answer, request } = sendOpen(`${service.url}${pathOf(testMessage)}`, callOf(testMessage))
      return { answer, disconnect: () => void request.destroy() }
    },
    /** Sends it; returns the answer in short, or `cut` if the connection was cut. */
    ask: (service: Api, testMessage: TestMessage): Promise<string> =>
      post(service, testMessage).then(resultOf, () => "cut"),
    state,
    /** Caches the token in a service, so that a send is its only use of the database. */
    warmUp: (service: Api) =>
      eventually(async () => {
        const { status } = await send(`${service.url}/api/v1/developer/messaging/sources`, { headers: bearer(token) })
        assert.strictEqual(status, 200)
      }),
    entry: ({ kind, text }: TestMessage): Entry => provider.entry(text, kind),
    /** Waits until the sessions of killed processes have ended. */
    untilSessionsEnd: () => untilSessionsEnd(query, "developer-api%"),
    /** Moves the creation of unfinished messages to the past, so that no request waits for them. */
    endWaits: () =>
      query(`UPDATE messages SET created_at = created_at - interval '1 hour' ${ofProject} AND attempting`),
    /** Ends every lease. */
    endLeases: () => query(`UPDATE messages SET available_at = now() - interval '1 ms' ${ofProject} AND attempting`),
    /** Ends every pause before the next attempt. */
    endPauses: () =>
      query(`UPDATE messages SET available_at = now() ${ofProject} AND NOT attempting AND available_at IS NOT NULL`)
  }
}

/** Asserts that the provider accepted each message at most once, under one key, and that every `sent` is true. */
export const expectTrue = async (scene: Scene, all: ReadonlyArray<TestMessage>) => {
  for (const testMessage of all) {
    const { calls, keys, taken } = scene.entry(testMessage)
    assert.isAtMost(taken.length, 1, testMessage.text)
    assert.isAtMost(keys.length, testMessage.kind === "http" ? 1 : 0, testMessage.text)
    if (testMessage.kind === "telegram") assert.isAtMost(calls, 1, testMessage.text)
    const state = await scene.state(testMessage)
    if (state !== "none" && state.status === "sent") assert.lengthOf(taken, 1, testMessage.text)
  }
  for (const { testMessage, receipt } of scene.receipts) {
    const { keys, taken } = scene.entry(testMessage)
    if (testMessage.kind === "http" && keys.length > 0) assert.deepStrictEqual(keys, [receipt.messageId])
    const accepted = receipt.attempts.filter(({ status }) => status === "accepted")
    assert.lengthOf(accepted, receipt.deliveryStatus === "sent" ? 1 : 0)
    for (const { providerMessageId } of accepted)
      assert.deepStrictEqual<ReadonlyArray<string | null>>(taken, [providerMessageId])
  }
}
