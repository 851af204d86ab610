/** `listen`: what it answers and prints for deliveries, in a process of its own, without a database. */
import { assert, it } from "../support/Vitest.ts"
import { Console, Duration, Effect, Fiber, Option, Redacted } from "effect"
import { HttpClient, HttpServerRequest } from "effect/http"
import { TestClock } from "effect/testing"
import { receiver as listener } from "../../src/cli/commands/listen.ts"
import { newSecret, signedHeaders } from "../../src/secrets/StandardWebhooks.ts"
import { receiver, status } from "../webhooks/delivery/Deliveries.support.ts"
import { request as httpRequest } from "node:http"
import { freePort } from "../support/Process.ts"
import { expectNoSecretOf } from "../support/Secrets.ts"
import { eventually } from "../support/Waiting.ts"
import { start } from "./Cli.support.ts"

const listening = /^listening on (http:\/\/127\.0\.0\.1:\d+)$/m

/** Starts the command, waits for its URL, and returns it with a function that ends the command by SIGINT. */
const listen = Effect.fnUntraced(function* (...args: ReadonlyArray<string>) {
  const { child, ended, stderr, stdout } = yield* start(["listen", ...args])
  yield* Effect.promise(() => eventually(() => assert.match(stdout() + stderr(), listening)))
  const url = listening.exec(stdout() + stderr())?.[1] ?? ""
  const interrupted = Effect.suspend(() => {
    child.kill("SIGINT")
    return Effect.tap(ended, (end) => Effect.sync(() => expectNoSecretOf(args, end, {})))
  })
  return { url, interrupted }
})

const post = (url: string, body: string, headers: Readonly<Record<string, string>>) =>
  Effect.promise(async () => (await fetch(`${url}/hooks`, { method: "POST", body, headers })).status)

const event = (name: string) => JSON.stringify({ id: "evt_1", type: "crm.deal.created.v1", data: { name } }, null, 1)

/** Returns the columns of each printed line, without the time. */
const columnsOf = (text: string) =>
  text
    .trimEnd()
    .split("\n")
    .map((line) => line.split("  "))
    .filter(([time = ""]) => /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(time))
    .map((columns) => columns.slice(1))

it.live("verifies deliveries, counts their attempts, fails the first ones, and ends with SIGINT", function* () {
  const secret = yield* newSecret
  const { interrupted, url } = yield* listen("--port", "0", "--secret", Redacted.value(secret), "--fail", "1")
  const body = event("Cups")
  const headers = signedHeaders([secret], "dlv_1", Date.now(), body)
  assert.strictEqual(yield* post(url, body, headers), 500)
  assert.strictEqual(yield* post(url, body, headers), 204)
  assert.strictEqual(yield* post(url, event("Forged"), headers), 401)
  assert.strictEqual(yield* post(url, `dk_4fGh8Kp2LmQx_\u001b[2J`, { "webhook-id": "x\ty" }), 401)
  const test = JSON.stringify({ type: "webhook.test.v1", data: {} })
  assert.strictEqual(yield* post(url, test, signedHeaders([secret], "tst_1", Date.now(), test)), 204)
  assert.strictEqual(yield* post(url, "x".repeat(2_000_000), headers), 413)
  const answer = yield* Effect.promise(() => fetch(url))
  assert.strictEqual(answer.status, 405)
  const { status: exit, stderr, stdout } = yield* interrupted
  assert.deepStrictEqual([exit, stderr], [0, ""])
  assert.deepStrictEqual(columnsOf(stdout), [
    ["crm.deal.created.v1", "dlv_1", "verified", "answered 500"],
    ["crm.deal.created.v1", "dlv_1", "attempt 2", "verified"],
    ["crm.deal.created.v1", "dlv_1", "attempt 3", "not verified", "signature_invalid"],
    ["-", "x y", "not verified", "header_missing"],
    ["webhook.test.v1", "tst_1", "verified"]
  ])
  assert.lengthOf(stdout.trimEnd().split("\n"), 6)
})

it.live("with --json prints events alone on standard output, and none that is not verified", function* () {
  const secret = yield* newSecret
  const { interrupted, url } = yield* listen("--json", "--port", "0", "--fail", "1", "--secret", Redacted.value(secret))
  const body = event("Cups")
  // The first answer is 500 whether the delivery is verified or not.
  assert.strictEqual(yield* post(url, event("Forged"), {}), 500)
  assert.strictEqual(yield* post(url, event("Forged"), {}), 401)
  assert.strictEqual(yield* post(url, body, signedHeaders([secret], "dlv_1", Date.now(), body)), 204)
  const { stderr, stdout } = yield* interrupted
  assert.strictEqual(stdout, `${JSON.stringify(JSON.parse(body))}\n`)
  const forged = ["crm.deal.created.v1", "-", "not verified", "header_missing"]
  const again = ["crm.deal.created.v1", "-", "attempt 2", "not verified", "header_missing"]
  assert.deepStrictEqual(columnsOf(stderr), [[...forged, "answered 500"], again])
})

it.live(
  "without a port takes a free one when the usual one is taken, and sends deliveries on as they came",
  function* () {
    const program = yield* receiver(status(302, { location: "/elsewhere" }))
    const one = yield* listen("--forward-to", program.url)
    const nobody = `http://127.0.0.1:${yield* Effect.promise(freePort)}/`
    const other = yield* listen("--forward-to", nobody)
    assert.notStrictEqual(one.url, other.url)
    const headers = { "webhook-id": "dlv_1", "webhook-signature": "v1,AAAA" }
    for (const { url } of [one, other]) assert.strictEqual(yield* post(url, event("Cups"), headers), 204)
    assert.deepStrictEqual(
      program.hits.map(({ body, headers }) => [headers["webhook-signature"], body]),
      [["v1,AAAA", event("Cups")]]
    )
    const columns = ["crm.deal.created.v1", "dlv_1", "secret unknown"]
    assert.deepStrictEqual(columnsOf((yield* one.interrupted).stdout), [[...columns, "forwarded", "302"]])
    assert.deepStrictEqual(columnsOf((yield* other.interrupted).stdout), [
      [...columns, "not forwarded", "ECONNREFUSED"]
    ])
  }
)

it.effect("waits 10 s for the program to which it sends deliveries on", function* () {
  const options = { json: false, fail: 0, secret: Option.none(), forwardTo: Option.some("http://127.0.0.1:1/") }
  const request = HttpServerRequest.fromWeb(
    new Request("http://127.0.0.1/", { method: "POST", body: "{}", headers: { host: "127.0.0.1" } })
  )
  const lines: Array<unknown> = []
  const answer = yield* listener(options).pipe(
    Effect.provideService(HttpServerRequest.HttpServerRequest, request),
    Effect.provideService(
      HttpClient.HttpClient,
      HttpClient.make(() => Effect.never)
    ),
    Effect.provideService(Console.Console, { ...globalThis.console, log: (line) => lines.push(line) }),
    Effect.forkChild({ startImmediately: true })
  )
  while (answer.pollUnsafe() === undefined) {
    yield* TestClock.adjust(Duration.seconds(5))
    yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
  }
  assert.strictEqual((yield* Fiber.join(answer)).status, 204)
  assert.match(String(lines), /  not forwarded  timeout$/)
})

it.live("refuses what a web page sends: an Origin, and a Host that is no name of the loopback", function* () {
  const to = yield* receiver(status(200))
  const { interrupted, url } = yield* listen("--port", "0", "--forward-to", to.url)
  const { port } = new URL(url)
  const sent = (headers: Readonly<Record<string, string>>) =>
    Effect.callback<number | undefined>((resume) => {
      const request = httpRequest({ host: "127.0.0.1", port, path: "/hooks", method: "POST", headers })
      request.on("response", (response) => resume(Effect.succeed(response.resume().statusCode)))
      request.end(event("Cups"))
    })
  for (const headers of [
    { origin: "https://example.com" },
    { origin: "null" },
    { host: "rebound.example.com" },
    { host: `192.0.2.1:${port}` }
  ]) {
    assert.strictEqual(yield* sent(headers), 403, JSON.stringify(headers))
  }
  assert.lengthOf(to.hits, 0)
  assert.strictEqual(yield* sent({ host: `localhost:${port}` }), 204)
  assert.lengthOf(to.hits, 1)
  yield* interrupted
})
