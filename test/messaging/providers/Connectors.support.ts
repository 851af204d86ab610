/** Channels of every provider at endpoints of a test, and the outcomes of their connectors. */
import { assert } from "@effect/vitest"
import {
  ConfigProvider,
  Duration,
  Effect,
  Fiber,
  Layer,
  Logger,
  Option,
  Predicate,
  References,
  Schema,
  Tracer
} from "effect"
import { TestClock } from "effect/testing"
import { ConversationId, MessageId } from "../../../src/api/schema/Ids.ts"
import { ChannelConfig, send as sendOver } from "../../../src/messaging/providers/Connectors.ts"
import type { CallOutcome, Outgoing } from "../../../src/messaging/providers/Connector.ts"
import { Settings } from "../../../src/platform/Settings.ts"
import type { Endpoint } from "../../support/Endpoints.ts"
import { untilLive } from "../../support/Waiting.ts"

/** The connectors of a process with this environment; by default they have a long timeout, for slow machines. */
export const connectors = (environment: Record<string, string> = { PROVIDER_TIMEOUT: "1h" }) =>
  Settings.layer.pipe(Layer.provide(ConfigProvider.layer(ConfigProvider.fromEnv({ env: environment }))))

export const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`
export const token = "123456:AAEhBOweik6ad9r-QXPENQjcrGbqCr4K_bot"

const channel = Schema.decodeUnknownSync(ChannelConfig)

export const httpTo = (url: string, signingSecret = secret) =>
  channel({ providerType: "http", config: { url, signingSecret } })

export const telegramTo = (apiBaseUrl: string) => channel({ providerType: "telegram", config: { apiBaseUrl, token } })

export const sandboxed = channel({ providerType: "sandbox", config: {} })

type Port = Pick<Endpoint, "port">

export const http = ({ port }: Port) => httpTo(`http://127.0.0.1:${port}/send`)
export const telegram = ({ port }: Port) => telegramTo(`http://127.0.0.1:${port}`)

/** Returns channels of both network providers at one endpoint. */
export const both = ({ port }: Port, origin = "http://127.0.0.1"): ReadonlyArray<ChannelConfig> => [
  httpTo(`${origin}:${port}/send`),
  telegramTo(`${origin}:${port}`)
]

/** Sends to both providers; asserts the outcome of each. */
export const expectOfBoth = Effect.fnUntraced(function* (
  to: Port,
  outcome: CallOutcome,
  { origin, what }: { readonly origin?: string; readonly what?: string } = {}
) {
  for (const channel of both(to, origin)) assert.deepStrictEqual(yield* send(channel), outcome, what)
})

export const message: Outgoing = {
  messageId: MessageId.make("msg_0193f0cd92c37d5e8b2c3d4e5f607182"),
  conversationId: ConversationId.make("0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8"),
  recipient: "+4915112345678",
  text: "Your machine is ready: 20 € 🚲"
}

/** Sends over a channel. Asserts that no span, outcome or log contains a secret, the text or the recipient. */
export const send = (
  channel: ChannelConfig,
  outgoing: Outgoing = message
): Effect.Effect<CallOutcome, never, Settings> =>
  Effect.gen(function* () {
    const { providerTimeout } = yield* Settings
    const logged: Array<unknown> = []
    const logger = Logger.make(({ cause, message }) => void logged.push(message, cause))
    const { spans, value } = yield* recorded(sendOver(channel, outgoing, providerTimeout)).pipe(
      Effect.provide(Logger.layer([logger])),
      Effect.provideService(References.MinimumLogLevel, "All")
    )
    assert.deepStrictEqual(logged, [])
    const outcome = withoutReason(value)
    const shown = [outcome, spans.map(({ attributes, links, name, status }) => [name, [...attributes], links, status])]
    for (const hidden of secrets) assert.notInclude(textOf(shown), hidden)
    return outcome
  })

/** Returns an outcome without the provider's words, which operators alone see, and which may repeat the request. */
const withoutReason = (outcome: CallOutcome): CallOutcome => {
  if (outcome._tag === "accepted") return outcome
  const { reason: _, ...others } = outcome
  return others
}

/** Values of a call that only the provider gets. */
const secrets = [secret.slice("whsec_".length), token, "AAEhBOweik6ad9r", message.recipient, "machine", "/send", "bot"]

/** Returns all values of a span or an outcome as text. */
const textOf = (value: unknown): string =>
  JSON.stringify(value, (_, inner: unknown) => {
    if (inner instanceof Map) return [...inner]
    if (inner instanceof Error) return [inner.message, inner.stack, { ...inner }]
    return Predicate.isBigInt(inner) ? inner.toString() : inner
  })

/** Starts a send under a test clock, without waiting for its outcome. */
export const start = (channel: ChannelConfig) => Effect.forkChild(send(channel), { startImmediately: true })

/** Starts a send, advances the clock by the deadline of 10 s once a condition holds, and returns the outcome. */
export const overdue = (channel: ChannelConfig, when: () => boolean) =>
  Effect.gen(function* () {
    const sending = yield* start(channel)
    yield* untilLive(when)
    yield* TestClock.adjust("10 seconds")
    return yield* Fiber.join(sending)
  })

export const accepted = (providerMessageId: string): CallOutcome => ({ _tag: "accepted", providerMessageId })
export const refused = (errorCode: string): CallOutcome => ({ _tag: "refused", errorCode })
export const unknown = (errorCode: string): CallOutcome => ({ _tag: "unknown", errorCode })
export const postponed = (errorCode: string, seconds?: number): CallOutcome => ({
  _tag: "postponed",
  errorCode,
  retryAfter: Option.map(Option.fromUndefinedOr(seconds), Duration.seconds)
})

/** Returns a complete answer with a body. */
export const reply = (status: number, body: string, ...headers: ReadonlyArray<string>) =>
  [`HTTP/1.1 ${status} Told so`, `content-length: ${Buffer.byteLength(body)}`, ...headers, "", body].join("\r\n")

/** Each provider's answer to an accepted message; 8812 is the id that the connector returns. */
export const taken = { http: `{"providerMessageId":"8812"}`, telegram: `{"ok":true,"result":{"message_id":8812}}` }

/** Runs an effect; returns its value and all spans that it made. */
export const recorded = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const outer = yield* Effect.tracer
    const spans: Array<Tracer.Span> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = outer.span(options)
        spans.push(span)
        return span
      }
    })
    return { value: yield* Effect.provideService(effect, Tracer.Tracer, tracer), spans }
  })
