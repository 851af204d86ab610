/** Messages that wait for another attempt while the provider of another project hangs (contract §8). */
import { assert, describe, it } from "../support/Vitest.ts"
import { Effect } from "effect"
import { conversations, open, taken, text } from "../contract/Messages.support.ts"
import { type Answering, hang, status } from "../integrations/deliveries/Deliveries.support.ts"
import { startServer } from "../support/TestServer.ts"
import { until, untilRows } from "../support/Waiting.ts"

/** Postpones each message once, and then answers its further attempts with `answer`. */
const afterwards = (answer: Answering): Answering => {
  const known = new Set<string>()
  return (hit, n) => {
    const key = String(hit.headers["idempotency-key"])
    if (known.has(key)) return answer(hit, n)
    known.add(key)
    return status(503)(hit, n)
  }
}

describe("a message that waits", () => {
  it.live("is attempted while a hundred of another project wait for a provider that hangs", function* () {
    // No call to the hanging provider ends during the test.
    const server = yield* startServer({ PROVIDER_TIMEOUT: "10m" })
    const stuck = yield* open(server, afterwards(hang))
    const healthy = yield* open(server, afterwards(taken))
    const send = ({ ask }: typeof stuck, count: number) =>
      Effect.forEach(Array.from({ length: count }), () => ask(conversations.http, { text }), {
        concurrency: 20,
        discard: true
      })
    yield* send(stuck, 100)
    yield* until(() => stuck.provider.hits.length > 100)
    yield* send(healthy, 40)
    yield* untilRows(healthy.rows, (rows) => rows.every(({ status }) => status === "sent"))
    assert.strictEqual(healthy.provider.hits.length, 80)
    // The hanging channel uses no more than its permits.
    assert.isAtMost(stuck.provider.hits.length, 100 + 16)
  })
})
