/**
 * Coalesces calls: the calls of one kind that arrive in one turn of the event loop run as one batch. A batch of ten costs little
 * more than one call, because waking a backend of PostgreSQL costs more than looking up a record by its key.
 */
import { Context, Effect, Exit } from "effect"
import type { ServiceUnavailable } from "../../api/Problems.ts"
import { startWithTimeout, timeLeft, unavailable } from "./Database.ts"

interface Call<Input, Output, E> {
  readonly input: Input
  readonly context: Context.Context<never>
  /** Time that the caller still waits, in milliseconds. */
  readonly left: number
  readonly resume: (effect: Effect.Effect<Output, E | ServiceUnavailable>) => void
  interrupted: boolean
}

/**
 * A call may last this many milliseconds beyond the time limit of its caller. So most calls of a batch need no timer of their
 * own.
 */
const tolerance = 100

/**
 * Makes a function that runs calls in batches. `run` returns one output for each input, in the order of the inputs.
 *
 * A batch starts at the end of the current turn of the event loop (`setImmediate`). A call starts at once if the load is low:
 * the last batch was a single call, and no call waits or is in flight. While `maxInFlight` batches are in flight, calls wait.
 *
 * If a batch fails, all its calls fail. When a caller is interrupted, the batch continues for the others. A batch runs in the
 * context of the call with the most time left, and the span of this call is the parent of the batch's spans. A call with less
 * time left, by more than `tolerance`, fails when its own time is over.
 */
export const coalesce = <Input, Output, E>(
  maxBatch: number,
  run: (inputs: ReadonlyArray<Input>) => Effect.Effect<ReadonlyArray<Output>, E>,
  maxInFlight = Infinity
): ((input: Input) => Effect.Effect<Output, E | ServiceUnavailable>) => {
  let waiting: Array<Call<Input, Output, E>> = []
  let inFlight = 0
  let lastWasOne = false

  const send = (calls: ReadonlyArray<Call<Input, Output, E>>, first: Call<Input, Output, E>) => {
    inFlight++
    const longest = calls.reduce((longest, call) => (call.left > longest.left ? call : longest), first)
    const timers = calls
      .filter(({ left }) => left < longest.left - tolerance)
      .map(({ left, resume }) => setTimeout(() => resume(Effect.fail(unavailable())), left))
    startWithTimeout(run(calls.map(({ input }) => input)), longest.context, (exit) => {
      inFlight--
      for (const timer of timers) clearTimeout(timer)
      if (Exit.isFailure(exit)) for (const { resume } of calls) resume(Effect.failCause(exit.cause))
      else for (const [index, answer] of exit.value.entries()) calls[index]?.resume(Effect.succeed(answer))
      if (waiting.length > 0 && inFlight === maxInFlight - 1) flush()
    })
  }

  const flush = () => {
    waiting = waiting.filter(({ interrupted }) => !interrupted)
    lastWasOne = waiting.length === 1
    while (inFlight < maxInFlight) {
      const batch = waiting.splice(0, maxBatch)
      const [first] = batch
      if (first === undefined) return
      send(batch, first)
    }
  }

  return (input) =>
    Effect.contextWith((context: Context.Context<never>) =>
      Effect.callback((resume) => {
        const call: Call<Input, Output, E> = { input, context, left: timeLeft(context), resume, interrupted: false }
        if (lastWasOne && inFlight === 0 && waiting.length === 0) send([call], call)
        else if (waiting.push(call) === 1) setImmediate(flush)
        return Effect.sync(() => {
          call.interrupted = true
        })
      })
    )
}
