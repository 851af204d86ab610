/** `listen`: receives webhooks on the loopback, to try them out. Needs no database (contract §13). */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Console, Data, Effect, Layer, Option, Redacted } from "effect"
import { CliError, Command, Flag } from "effect/cli"
import { FetchHttpClient, HttpServer } from "effect/http"
import { createServer } from "node:http"
import { url } from "../../platform/Settings/Formats.ts"
import * as Flags from "../Flags.ts"
import { codeOf, receiver } from "./listen/Receiver.ts"
import { cli } from "../Output.ts"
import { signalled } from "../Runner.ts"

const host = "127.0.0.1"
const usualPort = 8080

class CannotListen extends Data.TaggedError("CannotListen")<{ readonly message: string }> {}

const listenOn = (port: number) =>
  Effect.gen(function* () {
    const server = createServer({ headersTimeout: 15_000, requestTimeout: 30_000 })
    const listening = yield* NodeHttpServer.make(() => server, { host, port, gracefulShutdownTimeout: "1 second" })
    yield* Effect.addFinalizer(() => Effect.sync(() => server.closeAllConnections()))
    return listening
  }).pipe(
    Effect.mapError(
      ({ cause }) =>
        new CannotListen({
          message: `Can't listen on ${host}:${port}: ${codeOf(cause) ?? "failed"}; --port sets another port`
        })
    )
  )

const listenAt = (port: Option.Option<number>) =>
  Option.isSome(port) ? listenOn(port.value) : Effect.catch(listenOn(usualPort), () => listenOn(0))

/** A malformed secret is not repeated in the message. */
const secret = Flag.Redacted("secret").pipe(
  Flag.withMetavar("SECRET"),
  Flag.withDescription("The signing secret (whsec_…) by which deliveries are verified"),
  Flag.mapEffect((given) =>
    /^whsec_[A-Za-z0-9+/_-]{8,}={0,2}$/.test(Redacted.value(given))
      ? Effect.succeed(given)
      : Effect.fail(
          new CliError.InvalidValue({
            option: "secret",
            value: Redacted.value(given) && "…",
            expected: "whsec_ and base64",
            kind: "flag"
          })
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
    port: Flags.integer("port", 0, 65_535).pipe(
      Flag.withDescription(`The port; ${usualPort} if not given, or a free one if that is taken`),
      Flag.optional
    ),
    forwardTo: Flags.decodedFlag("forward-to", url("http:", "https:")).pipe(
      Flag.withMetavar("URL"),
      Flag.withDescription("Send each accepted delivery on to this URL, with its signature"),
      Flag.optional
    ),
    secret,
    fail: Flags.integer("fail", 0, 1_000_000).pipe(
      Flag.withDescription("Number of deliveries to answer with 500 first, so that they are retried; 0 if not given"),
      Flag.withDefault(0)
    )
  },
  Effect.fn(
    function* ({ port, ...options }) {
      const server = yield* listenAt(port)
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
  Command.withDescription(
    "Receive webhooks on this machine and show them, until SIGINT. Attempts are counted from the start of this command"
  ),
  Command.withExamples([
    { command: `${cli} listen`, description: "Use the printed URL as the endpointUrl of a webhook" },
    {
      command: `${cli} listen --port 8080 --secret "$SECRET" --forward-to http://127.0.0.1:4000/hooks`,
      description: "Verify deliveries, and send them on to your program"
    },
    { command: `${cli} listen --fail 2`, description: "See the retries of the first two deliveries" }
  ])
)
