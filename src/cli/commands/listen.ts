/** `listen`: receives webhooks on the loopback, to try them out. Needs no database (contract §13). */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { ByteSize, Clock, Console, Effect, Layer, Option, Predicate, Redacted } from "effect"
import { CliError, Command, Flag } from "effect/cli"
import {
  FetchHttpClient,
  HttpClient,
  HttpClientRequest,
  HttpServer,
  HttpServerRequest,
  HttpServerResponse
} from "effect/http"
import { createServer } from "node:http"
import { url } from "../../platform/Formats.ts"
import * as Flags from "../Flags.ts"
import { CommandFailed, described, oneLine } from "../Output.ts"
import { signalled } from "../Run.ts"
import { verifyWebhook } from "../../client/Webhooks.ts"
import { redactSecrets, withEscapes } from "../../platform/Text.ts"
import { isLoopbackHost } from "../../http/edge/AdminAddress.ts"

const host = "127.0.0.1"
const usualPort = 8080

const listenOn = (port: number) =>
  Effect.gen(function* () {
    const server = createServer({ headersTimeout: 15_000, requestTimeout: 30_000 })
    const listening = yield* NodeHttpServer.make(() => server, { host, port, gracefulShutdownTimeout: "1 second" })
    yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    return listening
  }).pipe(
    Effect.mapError(
      ({ cause }) =>
        new CommandFailed({
          message: `Can't listen on ${host}:${port}: ${codeOf(cause) ?? "failed"}; --port sets another port`
        })
    )
  )

/** A malformed secret is not repeated in the message. */
const secret = Flag.Redacted("secret").pipe(
  Flag.withMetavar("SECRET"),
  Flag.withDescription("The signing secret (whsec_…) by which deliveries are verified"),
  Flag.mapEffect((given) =>
    /^whsec_[A-Za-z0-9+/_-]{8,}={0,2}$/.test(Redacted.value(given))
      ? Effect.succeed(given)
      : Effect.fail(
          new CliError.InvalidValue({ option: "secret", value: "…", expected: "whsec_ and base64", kind: "flag" })
        )
  ),
  Flag.optional
)

export const listen = Command.make(
  "listen",
  {
    json: Flags.json.pipe(
      Flag.withDescription("Print each event as one line of JSON; everything else goes to standard error")
    ),
    port: Flags.integer("port", 0, 65_535, `The port; ${usualPort} if not given, or a free one if that is taken`).pipe(
      Flag.optional
    ),
    forwardTo: Flags.decodedFlag(
      "forward-to",
      url("http:", "https:"),
      "URL",
      "Send each accepted delivery on to this URL, with its signature"
    ).pipe(Flag.optional),
    secret,
    fail: Flags.integer(
      "fail",
      0,
      1_000_000,
      "Number of deliveries to answer with 500 first, so that they are retried; 0 if not given"
    ).pipe(Flag.withDefault(0))
  },
  Effect.fn(
    function* ({ port, ...options }) {
      const server = yield* Option.isSome(port)
        ? listenOn(port.value)
        : Effect.catch(listenOn(usualPort), () => listenOn(0))
      yield* server.serve(receiver(options))
      const line = `listening on ${HttpServer.formatAddress(server.address)}`
      yield* options.json ? Console.error(line) : Console.log(line)
      yield* signalled
    },
    Effect.scoped,
    Effect.provide([
      NodeHttpServer.layerHttpServices,
      Layer.provide(FetchHttpClient.layer, Layer.succeed(FetchHttpClient.RequestInit, { redirect: "manual" }))
    ])
  )
).pipe(
  described(
    "Receive webhooks on this machine and show them, until SIGINT. Attempts are counted from the start of this command",
    {
      "": "Use the printed URL as the endpointUrl of a webhook",
      '--port 8080 --secret "$SECRET" --forward-to http://127.0.0.1:4000/hooks':
        "Verify deliveries, and send them on to your program",
      "--fail 2": "See the retries of the first two deliveries"
    }
  )
)

const maxBodySize = ByteSize.mebibytes(1)

/** Returns the code of a failure or of its cause. The message is not shown, because it may repeat the URL. */
const codeOf = (error: unknown): string | undefined =>
  Predicate.hasProperty(error, "code") && typeof error.code === "string"
    ? error.code
    : Predicate.hasProperty(error, "cause")
      ? codeOf(error.cause)
      : undefined

interface Received {
  readonly bytes: Uint8Array
  readonly headers: Readonly<Record<string, string>>
}

/** Returns the event of a delivery, or none if its body is not a JSON object. */
const eventOf = ({ bytes }: Received): Option.Option<object> =>
  Option.liftThrowable((): unknown => JSON.parse(new TextDecoder().decode(bytes)))().pipe(
    Option.filter(Predicate.isObject)
  )

/** Reasons for which `verifyWebhook` fails although the signature is valid: this version of the client can't read the event. */
const authentic = new Set(["type_unknown", "body_invalid"])

const verification = (secret: Option.Option<Redacted.Redacted>, { bytes, headers }: Received) =>
  Option.match(secret, {
    onNone: () => Effect.succeed("secret unknown"),
    onSome: (secret) =>
      Effect.match(verifyWebhook({ body: bytes, headers, secrets: secret }), {
        onSuccess: () => "verified",
        onFailure: ({ reason }) => (authentic.has(reason) ? "verified" : `not verified  ${reason}`)
      })
  })

const forward = (to: string, { bytes, headers }: Received) => {
  const kept = Object.entries(headers).filter(([name]) =>
    /^(webhook-.*|content-type|user-agent|traceparent)$/.test(name)
  )
  return HttpClientRequest.post(to).pipe(
    HttpClientRequest.setHeaders(kept),
    HttpClientRequest.bodyUint8Array(bytes, headers["content-type"] ?? "application/json"),
    HttpClient.execute,
    // Less than the 15 s for which the service waits for an answer.
    Effect.timeout("10 seconds"),
    Effect.match({
      onSuccess: ({ status }) => `forwarded  ${status}`,
      onFailure: (error) => `not forwarded  ${error._tag === "TimeoutError" ? "timeout" : (codeOf(error) ?? "failed")}`
    }),
    Effect.scoped
  )
}

/** Counts attempts, of the latest 10,000 deliveries. */
const makeAttempts = () => {
  const attempts = new Map<string, number>()
  return (id: string): number => {
    const number = (attempts.get(id) ?? 0) + 1
    attempts.delete(id)
    attempts.set(id, number)
    for (const oldest of attempts.keys()) {
      if (attempts.size <= 10_000) break
      attempts.delete(oldest)
    }
    return number
  }
}

/** The text is a sender's: it may be long, and may contain secrets and control characters. */
const printable = (text: unknown): string => oneLine(redactSecrets(typeof text === "string" ? text : "-")).slice(0, 120)

interface Options {
  readonly json: boolean
  readonly secret: Option.Option<Redacted.Redacted>
  readonly forwardTo: Option.Option<string>
  readonly fail: number
}

export const receiver = ({ fail, forwardTo, json, secret }: Options) => {
  const attemptOf = makeAttempts()
  let failures = fail
  return Effect.gen(function* () {
    const request = yield* HttpServerRequest.HttpServerRequest
    // A page of a web site could send what is forwarded: browsers add `Origin`, and a name that leads to the loopback is in `Host`.
    if (request.headers["origin"] !== undefined || !isLoopbackHost(request.headers["host"] ?? ""))
      return HttpServerResponse.empty({ status: 403 })
    if (request.method !== "POST") return HttpServerResponse.empty({ status: 405, headers: { allow: "POST" } })
    const body = yield* Effect.result(request.arrayBuffer)
    if (body._tag === "Failure") return HttpServerResponse.empty({ status: 413, headers: { connection: "close" } })
    const received = { bytes: new Uint8Array(body.success), headers: request.headers }
    const event = eventOf(received)
    const id = request.headers["webhook-id"] ?? "-"
    const attempt = attemptOf(id)
    const verified = yield* verification(secret, received)
    const isRefused = verified.startsWith("not")
    const status = failures > 0 ? 500 : isRefused ? 401 : 204
    if (failures > 0) failures--
    const forwarded =
      status === 204
        ? yield* Effect.transposeOption(Option.map(forwardTo, (to) => forward(to, received)))
        : Option.none()
    const line = [
      new Date(yield* Clock.currentTimeMillis).toISOString(),
      printable(Option.getOrUndefined(Option.map(event, (body) => ("type" in body ? body.type : undefined)))),
      printable(id),
      ...(attempt > 1 ? [`attempt ${attempt}`] : []),
      verified,
      ...(status === 500 ? ["answered 500"] : []),
      ...Option.toArray(forwarded)
    ].join("  ")
    // With `--json` a program reads standard output: it gets only events whose signature was not refused. All other lines go to
    // standard error.
    const isEvent = json && !isRefused && Option.isSome(event)
    yield* isEvent
      ? Console.log(withEscapes(JSON.stringify(event.value)))
      : json
        ? Console.error(line)
        : Console.log(line)
    return HttpServerResponse.empty({ status })
  }).pipe(Effect.provideService(HttpServerRequest.MaxBodySize, maxBodySize))
}
