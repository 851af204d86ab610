/** Signals of the operator or the orchestrator. */
import { Effect, Queue } from "effect"

/** Queues SIGTERM and SIGINT in the order of their arrival while the scope is open; they do not end the process. */
export const signals = Effect.gen(function* () {
  const queue = yield* Queue.unbounded<"SIGTERM" | "SIGINT">()
  const onTerm = () => Queue.offerUnsafe(queue, "SIGTERM")
  const onInt = () => Queue.offerUnsafe(queue, "SIGINT")
  yield* Effect.acquireRelease(
    Effect.sync(() => process.on("SIGTERM", onTerm).on("SIGINT", onInt)),
    () => Effect.sync(() => process.off("SIGTERM", onTerm).off("SIGINT", onInt))
  )
  return queue
})
