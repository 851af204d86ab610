/** What the operator or the orchestrator tells the process. */
import { Effect, Queue } from "effect"

/** SIGTERM and SIGINT in the order of their arrival, instead of their killing the process, while the scope is open. */
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
