/** Messages that wait, and how a test waits with them. */
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { type MessageRow, open, script, taken } from "../contract/Messages.support.ts"
import { type Answering, status } from "../integrations/Deliveries.support.ts"
import { messageReceiptOf } from "../support/MessagingAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { untilLater } from "./Messages.support.ts"

const isUnderWay = ({ attempting }: MessageRow) => attempting

/** A project whose messages are answered so, one after the other, with the clock in the test's hand. */
export const start = Effect.fnUntraced(function* (...answers: readonly [Answering, ...ReadonlyArray<Answering>]) {
  const project = yield* open(yield* TestServer, script(...answers))
  const { provider, row } = project
  return {
    ...project,
    /** Lets time pass until a message is in a state, with no call under way. */
    untilIs: (id: string | null, state: string) =>
      untilLater(row(id), ({ attempting, status }) => status === state && !attempting, isUnderWay),
    /** Lets time pass until so many calls were made, and are recorded. */
    untilCalled: (id: string | null, times: number) =>
      untilLater(row(id), ({ attempting, attempts }) => attempts === times && !attempting, isUnderWay),
    calls: () => provider.hits.length
  }
})

/** A message that waits for nothing but its time: when it has had its attempt, whatever was due before has had its. */
export const sentinel = Effect.fnUntraced(function* () {
  const { send, untilIs } = yield* start(status(503), taken)
  const { messageId } = messageReceiptOf(yield* send("http"))
  yield* TestClock.adjust("1 seconds")
  yield* untilIs(messageId, "sent")
})
