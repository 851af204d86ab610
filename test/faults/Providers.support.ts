/** Providers that a test controls, and a record of all calls to them (contract §8). */
import { Schema } from "effect"
import type { IncomingHttpHeaders, ServerResponse } from "node:http"
import { receiver } from "../webhooks/delivery/Deliveries.support.ts"
import { opened } from "../support/Finalizers.ts"
import type { Trap } from "../support/WireProxy.ts"

/** `http` sends idempotently, `telegram` does not. */
export const kinds = ["http", "telegram"] as const
export type Kind = (typeof kinds)[number]

/** Secrets that only the provider may receive. */
export const secrets = {
  signingSecret: `whsec_${Buffer.alloc(32, 9).toString("base64")}`,
  token: "123456:AAEhBOweik6ad9r-QXPENQjcrGbqCr4K_bot"
}

/** Returns a channel of each kind, named after it, whose messages go to a provider. */
export const channelsOf = ({ url }: { readonly url: string }) =>
  [
    {
      id: "http",
      providerType: "http",
      displayName: "Http",
      config: { url: `${url}/hook`, signingSecret: secrets.signingSecret }
    },
    { id: "telegram", providerType: "telegram", displayName: "Bot", config: { apiBaseUrl: url, token: secrets.token } }
  ] as const

/** A complete request to a provider. */
export interface Call {
  readonly kind: Kind
  /** The provider's idempotency key, if it has one. */
  readonly key: string | undefined
  readonly text: string
  readonly headers: IncomingHttpHeaders
  readonly response: ServerResponse
  /** Accepts the message, unless its key is known already. Returns the body of the answer. */
  readonly take: () => string
  /** Accepts the message, and answers so. */
  readonly accept: () => void
}

export type Answering = (call: Call) => void

export const accept: Answering = (call) => call.accept()
/** Never answers. */
export const ignore: Answering = () => {}
/** Accepts the message, and never answers. */
export const acceptSilently: Answering = (call) => void call.take()
/** Accepts the message, and sends only the first part of the answer. */
export const halfway: Answering = (call) => {
  const body = call.take()
  call.response.writeHead(200, { "content-length": Buffer.byteLength(body) }).write(body.slice(0, 10))
}
/** Refuses the message with 503, so that it certainly was not accepted. */
export const busy: Answering = ({ response }) => void response.writeHead(503).end("{}")

/** The state of a message at the provider. */
export interface Entry {
  readonly kind: Kind
  readonly calls: number
  readonly keys: ReadonlyArray<string>
  /** The provider's id for each time that it accepted the message. */
  readonly taken: ReadonlyArray<string>
}

const HttpBody = Schema.fromJsonString(Schema.Struct({ messageId: Schema.String, text: Schema.String }))
const TelegramBody = Schema.fromJsonString(Schema.Struct({ chat_id: Schema.String, text: Schema.String }))

export type Provider = Awaited<ReturnType<typeof startProvider>>

/** Starts both providers on one port. They accept everything unless another answer is set. */
export const startProvider = async () => {
  const calls: Array<Call> = []
  const takenBy = new Map<Call, string>()
  const idOf = new Map<string, string>()
  let answer = accept
  let n = 0

  const received = (path: string, headers: IncomingHttpHeaders, json: string, response: ServerResponse) => {
    const kind: Kind = path.startsWith("/bot") ? "telegram" : "http"
    const { text } = Schema.decodeSync(kind === "http" ? HttpBody : TelegramBody)(json)
    const key = kind === "http" ? String(headers["idempotency-key"]) : undefined
    const take = () => {
      const known = key === undefined ? takenBy.get(call) : idOf.get(key)
      const id = known ?? String(++n)
      if (key !== undefined) idOf.set(key, id)
      if (known === undefined) takenBy.set(call, id)
      return kind === "http" ? `{"providerMessageId":"${id}"}` : `{"ok":true,"result":{"message_id":${id}}}`
    }
    const call: Call = { kind, key, text, headers, response, take, accept: () => void response.end(take()) }
    calls.push(call)
    answer(call)
  }

  const { port } = await opened(
    receiver(({ body, headers, path, response }) => received(path, headers, body, response))
  )
  const url = `http://127.0.0.1:${port}`

  const of = (text: string) => calls.filter((call) => call.text === text)
  return {
    url,
    calls,
    /** Sets the answer from the next call on. */
    answerWith: (next: Answering) => {
      answer = next
    },
    /** Accepts the calls that still wait for an answer, and all later ones. */
    acceptAll: () => {
      answer = accept
      for (const call of calls) if (!call.response.headersSent && !call.response.destroyed) call.accept()
    },
    /** Answers each call with `what`; `reached` resolves after `count` calls. */
    trap: (count: number, what: Answering): Pick<Trap, "reached" | "cut"> => {
      const { promise, resolve } = Promise.withResolvers<void>()
      let left = count
      answer = (call) => {
        what(call)
        if (--left === 0) resolve()
      }
      return { reached: promise, cut: () => undefined }
    },
    entry: (text: string, kind: Kind): Entry => ({
      kind,
      calls: of(text).length,
      keys: [...new Set(of(text).flatMap(({ key }) => (key === undefined ? [] : [key])))],
      taken: of(text).flatMap((call) => takenBy.get(call) ?? [])
    })
  }
}
