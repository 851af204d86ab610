/** Sends from a process that has no file descriptor left, then from the same process with some; prints both outcomes. */
import { Duration, Effect } from "effect"
import { closeSync, openSync } from "node:fs"
import { lookup } from "node:dns/promises"
import { networksOf } from "../../../src/webhooks/address/Addresses.ts"
import { Sender } from "../../../src/webhooks/address/Sender.ts"

const taken: Array<number> = []
const takeAll = () => {
  try {
    for (;;) taken.push(openSync("/dev/null", "r"))
  } catch {
    // None is left.
  }
}

const urls = process.argv.slice(2)
const codeAt = (url: string) =>
  Effect.map(
    Effect.flatMap(Sender, (sender) => sender.send({ url, body: "{}", headers: {} })),
    (outcome) => (outcome._tag === "answered" ? outcome.status : outcome.code)
  )

// What is loaded at the first use is loaded before.
await lookup("localhost")
const outcomes = await Effect.runPromise(
  Effect.gen(function* () {
    const first = yield* codeAt(urls[0] ?? "")
    yield* Effect.sleep("50 millis")
    takeAll()
    const without = yield* Effect.forEach(urls.slice(1), codeAt)
    for (const descriptor of taken) closeSync(descriptor)
    return [first, ...without, yield* codeAt(urls[0] ?? "")]
  }).pipe(
    Effect.provide(Sender.layer({ timeout: Duration.seconds(10), allowed: networksOf(["127.0.0.0/8", "::1/128"]) }))
  )
)
process.stdout.write(JSON.stringify(outcomes))
