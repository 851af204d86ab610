/**
 * Coalesced calls: the calls of one kind that arrive in one turn of the event loop run as one batch. To wake a backend of
 * PostgreSQL costs more than to look up a record by its key, so a batch of ten costs little more than one call.
 */
import { Context, Effect, Exit } from "effect"
import type { ServiceUnavailable } from "../api/Problems.ts"
import { startWithTimeout } from "./Database.ts"

interface Call<Input, Output, E> {
  readonly input: Input
  readonly context: Context.Context<never>
  readonly resume: (effect: Effect.Effect<Output, E | ServiceUnavailable>) => void
  interrupted: boolean
}

/**
 * Makes a function of `run`, which answers each of its inputs, in their order. A batch starts once the turn of the event
 * loop ends (`setImmediate`, before the loop waits for anything). If the last batch was a single call, the load is low: then a
 * call starts at once while no batch is in flight. A failure of a batch reaches each of its callers. An interrupted caller
 * leaves its batch; the batch runs on for the others. A batch runs in the context of its first call, whose span is the parent
 * of the batch's, and for the time that a statement may take.
 */
export const coalesced = <Input, Output, E>(
  maxBatch: number,
  run: (inputs: ReadonlyArray<Input>) => Effect.Effect<ReadonlyArray<Output>, E>
): ((input: Input) => Effect.Effect<Output, E | ServiceUnavailable>) => {
  let waiting: Array<Call<Input, Output, E>> = []
  let inFlight = 0
  let lastWasOne = false

  const send = (calls: ReadonlyArray<Call<Input, Output, E>>, first: Call<Input, Output, E>) => {
    inFlight++
    startWithTimeout(run(calls.map(({ input }) => input)), first.context, (exit) => {
      inFlight--
      if (Exit.isFailure(exit)) for (const { resume } of calls) resume(Effect.failCause(exit.cause))
      else for (const [index, answer] of exit.value.entries()) calls[index]?.resume(Effect.succeed(answer))
    })
  }

  const flush = () => {
    const calls = waiting.filter(({ interrupted }) => !interrupted)
    waiting = []
    lastWasOne = calls.length === 1
    for (let from = 0; from < calls.length; from += maxBatch) {
      const batch = calls.slice(from, from + maxBatch)
      const [first] = batch
      if (first !== undefined) send(batch, first)
    }
  }

  return (input) =>
    Effect.contextWith((context: Context.Context<never>) =>
      Effect.callback((resume) => {
        const call: Call<Input, Output, E> = { input, context, resume, interrupted: false }
        if (lastWasOne && inFlight === 0 && waiting.length === 0) send([call], call)
        else if (waiting.push(call) === 1) setImmediate(flush)
        return Effect.sync(() => {
          call.interrupted = true
        })
      })
    )
}
