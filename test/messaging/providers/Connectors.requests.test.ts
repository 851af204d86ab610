/** Requests of the connectors (contract §8) and their spans. */
import { assert, describe, providing } from "../../support/Vitest.ts"
import { Effect, Exit, Option, References } from "effect"
import { Webhook } from "standardwebhooks"
import manifest from "../../../package.json" with { type: "json" }
import { answering, type Endpoint, endpoint, parsed } from "../../support/Endpoints.ts"
import {
  accepted,
  both,
  connectors,
  expectOfBoth,
  http,
  httpTo,
  message,
  recorded,
  reply,
  sandboxed,
  secret,
  send,
  taken,
  telegram,
  telegramTo,
  token,
  unknown
} from "./Connectors.support.ts"

const test = providing(connectors())

/** Returns the last request of an endpoint. */
const last = ({ received }: Endpoint) => parsed(received.at(-1)?.text ?? "")

describe("the http connector", () => {
  test("sends the message as JSON under its id with an exact signature", function* () {
    const provider = yield* answering(reply(200, taken.http))
    const url = `http://127.0.0.1:${provider.port}/a%20b/ü?x=1&y=`
    assert.deepStrictEqual(yield* send(httpTo(url)), accepted("8812"))
    const { body, headers, line } = last(provider)
    assert.strictEqual(line, "POST /a%20b/%C3%BC?x=1&y= HTTP/1.1")
    assert.strictEqual(
      body,
      `{"messageId":"${message.messageId}","conversationId":"${message.conversationId}",` +
        `"recipient":"+4915112345678","text":"Your machine is ready: 20 € 🚲"}`
    )
    const { traceparent, "webhook-signature": signature, "webhook-timestamp": timestamp, ...others } = headers
    assert.deepStrictEqual(others, {
      "content-type": "application/json",
      "user-agent": `developer-api/${manifest.version}`,
      "idempotency-key": message.messageId,
      "webhook-id": message.messageId,
      "accept-encoding": "identity",
      "content-length": `${Buffer.byteLength(body)}`,
      host: `127.0.0.1:${provider.port}`,
      connection: "close"
    })
    assert.match(`${signature} ${timestamp}`, /^v1,[A-Za-z0-9+/]{43}= [0-9]{10}$/)
    assert.isDefined(traceparent)
    new Webhook(secret).verify(body, headers)
    assert.throws(() => new Webhook(secret).verify(`${body} `, headers))
  })

  test("sends traceparent when there is a span", function* () {
    const provider = yield* answering(reply(200, taken.http))
    const { spans } = yield* recorded(send(http(provider)).pipe(Effect.withSpan("cause")))
    const [cause, call] = spans
    assert.strictEqual(last(provider).headers["traceparent"], `00-${cause?.traceId}-${call?.spanId}-01`)
    yield* send(http(provider)).pipe(Effect.provideService(References.TracerEnabled, false))
    assert.notProperty(last(provider).headers, "traceparent")
  })
})

test("the telegram connector sends chat and text to the bot's sendMessage and nothing else", function* () {
  const provider = yield* answering(reply(200, taken.telegram))
  for (const [base, path] of [
    ["", ""],
    ["/", ""],
    ["/telegram/v1", "/telegram/v1"],
    ["/telegram//", "/telegram"],
    // White space around a URL is ignored.
    [" ", ""]
  ]) {
    assert.deepStrictEqual(yield* send(telegramTo(`http://127.0.0.1:${provider.port}${base}`)), accepted("8812"))
    const { body, headers, line } = last(provider)
    assert.strictEqual(line, `POST ${path}/bot${token}/sendMessage HTTP/1.1`)
    assert.strictEqual(body, `{"chat_id":"+4915112345678","text":"Your machine is ready: 20 € 🚲"}`)
    assert.deepStrictEqual(headers, {
      "content-type": "application/json",
      "user-agent": `developer-api/${manifest.version}`,
      "accept-encoding": "identity",
      "content-length": `${Buffer.byteLength(body)}`,
      host: `127.0.0.1:${provider.port}`,
      connection: "close"
    })
  }
})

providing(connectors(), "effect")(
  "the sandbox accepts every message, with the same id for the same message, without a call",
  function* () {
    const { spans, value: first } = yield* recorded(send(sandboxed))
    assert.deepStrictEqual(first, accepted(`sandbox_${message.messageId}`))
    assert.deepStrictEqual(yield* send(sandboxed), first)
    assert.strictEqual(spans.length, 0)
  }
)

describe("the span of a provider call", () => {
  test("is a client span with the target, the message and the outcome", function* () {
    const refusing = yield* answering(reply(403, `{"ok":false,"error_code":403}`))
    const unreadable = yield* answering(reply(200, "ok"))
    const taking = yield* answering(reply(200, taken.http))
    const { port: nobody } = yield* Effect.scoped(endpoint(() => {}))
    const at = (port: number) => ({
      "http.request.method": "POST",
      "server.address": "127.0.0.1",
      "server.port": port,
      "url.full": `http://127.0.0.1:${port}/REDACTED`,
      "message.id": message.messageId
    })
    for (const [channel, attributes] of [
      [http(taking), { ...at(taking.port), "http.response.status_code": 200 }],
      [http(refusing), { ...at(refusing.port), "http.response.status_code": 403, "error.type": "http_403" }],
      [telegram(refusing), { ...at(refusing.port), "http.response.status_code": 403, "error.type": "telegram_403" }],
      [
        http(unreadable),
        { ...at(unreadable.port), "http.response.status_code": 200, "error.type": "unreadable_answer" }
      ],
      [http({ port: nobody }), { ...at(nobody), "error.type": "connect_failed" }]
    ] as const) {
      const { spans } = yield* recorded(send(channel).pipe(Effect.withSpan("cause")))
      const [cause, ...calls] = spans
      const described = calls.map((call) => ({
        name: call.name,
        kind: call.kind,
        parent: Option.map(call.parent, ({ spanId }) => spanId),
        failed: call.status._tag === "Ended" && Exit.isFailure(call.status.exit),
        attributes: Object.fromEntries(call.attributes)
      }))
      const parent = Option.fromUndefinedOr(cause?.spanId)
      assert.deepStrictEqual(described, [
        { name: "POST", kind: "client", parent, failed: "error.type" in attributes, attributes }
      ])
    }
  })

  test("contains nothing of a request that the provider repeats in its answer", function* () {
    for (const status of [200, 302, 400, 429, 500]) {
      const echo = yield* endpoint(({ socket, text }) =>
        socket.write(reply(status, JSON.stringify({ ok: false, error_code: status, description: text })))
      )
      for (const channel of both(echo)) assert.notStrictEqual((yield* send(channel))._tag, "accepted")
    }
    yield* expectOfBoth(yield* endpoint(({ socket, text }) => socket.write(text)), unknown("unreadable_answer"))
  })
})
