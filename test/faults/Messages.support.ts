/** A project with a conversation over each kind of provider, sends into them, and what is known of each message. */
import { Schema } from "effect"
import { randomBytes } from "node:crypto"
import { assert } from "@effect/vitest"
import { MessageReceipt } from "../../src/api/messaging/Messaging.ts"
import { type Service, startService } from "../support/Process.ts"
import { burial, project, serviceEnv, session, unlimited } from "./Projects.support.ts"
import { channelsOf, type Entry, type Kind, kinds, startProvider } from "./Providers.support.ts"
import { type Answer, bearer, type Call, kindOf, open, send } from "./Requests.support.ts"
import { eventually } from "../support/Waiting.ts"

/** A message that a caller wants to be sent. Its text is its key, and no other's. */
export interface Mail {
  readonly kind: Kind
  readonly text: string
}

/** `count` of each kind. */
export const mails = (name: string, count = 1): ReadonlyArray<Mail> =>
  Array.from({ length: count }, (_, n) => kinds.map((kind) => ({ kind, text: `${name}-${n}-${kind}` }))).flat()

export const mail = (name: string, kind: Kind): Mail => ({ kind, text: `${name}-${kind}` })

/** Addresses, which nobody may see but the provider. */
export const recipients = { http: "+4915550001111", telegram: "99887766554433" }

const conversations = {
  http: "0193f0cb-d4e5-7f70-8192-03a4b5c6d7e8",
  telegram: "0193f0cb-d4e5-7f70-8192-03a4b5c6d7e9"
}

/** A service that waits for providers longer than any test runs: what ends there, ends by what the test does. */
export const start = (
  databaseUrl: string,
  role: "all" | "api" | "worker" = "all",
  env: Readonly<Record<string, string>> = {}
): Promise<Service> =>
  startService({ env: { ...serviceEnv(databaseUrl), PROVIDER_TIMEOUT: "60s", ...env }, args: ["--role", role] })

/** What an answer says of the message: `200 sent`, `503 provider_outcome_unknown`. */
export const told = (answer: Answer): string =>
  isReceipt(answer.body) ? `${answer.status} ${answer.body.deliveryStatus}` : kindOf(answer)

const isReceipt = Schema.is(MessageReceipt)

export const sent = "200 sent"
export const pending = "200 pending"
export const retrying = "200 retrying"
export const unknown = "503 provider_outcome_unknown"

/** The statement that commits a message with its first attempt. */
export const creates = /INSERT INTO messages /
/** The statement that records the outcome of an attempt. */
export const records = /^\s*UPDATE messages SET status = \$/

/** What the database says of a message. */
export interface State {
  readonly status: string
  readonly attempting: boolean
  /** Each attempt's status, with its error where it has one. */
  readonly attempts: ReadonlyArray<string>
}

const StateRow = Schema.Struct({
  status: Schema.String,
  attempting: Schema.Boolean,
  attempts: Schema.Array(Schema.String)
})

export type Desk = Awaited<ReturnType<typeof openDesk>>

/** A project of the test's own, with providers of its own. */
export const openDesk = async (databaseUrl: string) => {
  const provider = await startProvider()
  const id = `p-${randomBytes(6).toString("hex")}`
  const token = await project(databaseUrl, {
    project: { id, name: id, rateLimits: unlimited },
    channels: channelsOf(provider),
    conversations: kinds.map((kind) => ({ id: conversations[kind], channelId: kind, address: recipients[kind] }))
  })
  let query = await session(databaseUrl)
  const ofUs = `WHERE project_id = '${id}'`
  /** Every receipt that was ever answered. */
  const receipts: Array<{ readonly mail: Mail; readonly receipt: MessageReceipt }> = []

  const heard = (mail: Mail, answer: Answer) => {
    if (answer.status === 200) {
      receipts.push({ mail, receipt: Schema.decodeUnknownSync(MessageReceipt)(answer.body) })
    }
    return answer
  }
  const callOf = ({ text }: Mail, headers: Readonly<Record<string, string>> = {}): Call => ({
    method: "POST",
    headers: { ...bearer(token), "idempotency-key": text, ...headers },
    json: { text }
  })
  const pathOf = ({ kind }: Mail) => `/api/v1/developer/messaging/conversations/${conversations[kind]}/messages`

  const post = (service: Service, mail: Mail, headers?: Readonly<Record<string, string>>): Promise<Answer> =>
    send(`${service.url}${pathOf(mail)}`, callOf(mail, headers)).then((answer) => heard(mail, answer))

  const state = async ({ text }: Mail): Promise<State | "none"> => {
    const [row] = await query(`
      SELECT status, attempting, ARRAY(
        SELECT concat_ws(' ', entry ->> 'status', entry ->> 'errorCode') FROM jsonb_array_elements(attempt_log) AS entry
      ) AS attempts FROM messages ${ofUs} AND text = '${text}'`)
    return row === undefined ? "none" : Schema.decodeUnknownSync(StateRow)(row)
  }

  return {
    id,
    provider,
    token,
    receipts,
    query: (text: string) => query(text),
    /** Where PostgreSQL has been away, the test's own connection is gone, too. */
    reconnect: async () => {
      query = await session(databaseUrl)
    },
    /** Sends it, or asks what has become of it. */
    post,
    /** Sends it from a caller who can hang up. */
    call: (service: Service, mail: Mail) => {
      const call = callOf(mail)
      const { answer, request } = open(`${service.url}${pathOf(mail)}`, call)
      request.end(JSON.stringify(call.json))
      return { answer, hangUp: () => void request.destroy() }
    },
    /** What is answered, or that nothing is. */
    ask: (service: Service, mail: Mail): Promise<string> => post(service, mail).then(told, () => "cut"),
    state,
    /** Lets a service know the token, so that a send is the only thing that it asks the database. */
    warmUp: (service: Service) =>
      eventually(async () => {
        const { status } = await send(`${service.url}/api/v1/developer/messaging/sources`, { headers: bearer(token) })
        assert.strictEqual(status, 200)
      }),
    entry: ({ kind, text }: Mail): Entry => provider.entry(text, kind),
    /** Waits until PostgreSQL has done what processes that are dead still asked it to do. */
    burial: () => burial(query, "developer-api%"),
    /** As if everything that is under way had begun long ago: nobody waits for it any more. */
    endWaits: () => query(`UPDATE messages SET created_at = created_at - interval '1 hour' ${ofUs} AND attempting`),
    /** As if the time of every lease had passed. */
    endLeases: () => query(`UPDATE messages SET available_at = now() - interval '1 ms' ${ofUs} AND attempting`),
    /** As if every pause before the next attempt had passed. */
    endPauses: () =>
      query(`UPDATE messages SET available_at = now() ${ofUs} AND NOT attempting AND available_at IS NOT NULL`)
  }
}

/** The provider has taken a message once at most, under one key, and whatever says `sent` is true. */
export const expectTrue = async (desk: Desk, all: ReadonlyArray<Mail>) => {
  for (const mail of all) {
    const { calls, keys, taken } = desk.entry(mail)
    assert.isAtMost(taken.length, 1, mail.text)
    assert.isAtMost(keys.length, mail.kind === "http" ? 1 : 0, mail.text)
    if (mail.kind === "telegram") assert.isAtMost(calls, 1, mail.text)
    const state = await desk.state(mail)
    if (state !== "none" && state.status === "sent") assert.lengthOf(taken, 1, mail.text)
  }
  for (const { mail, receipt } of desk.receipts) {
    const { keys, taken } = desk.entry(mail)
    if (mail.kind === "http" && keys.length > 0) assert.deepStrictEqual(keys, [receipt.messageId])
    const accepted = receipt.attempts.filter(({ status }) => status === "accepted")
    assert.lengthOf(accepted, receipt.deliveryStatus === "sent" ? 1 : 0)
    for (const { providerMessageId } of accepted)
      assert.deepStrictEqual<ReadonlyArray<string | null>>(taken, [providerMessageId])
  }
}
