/**
 * Runs calls of one kind in batches: the calls that arrive in one turn of the event loop are one statement. A batch of ten costs
 * little more than one call, because waking a backend of PostgreSQL costs more than looking up a record by its key.
 *
 * Reads use `coalesce`: first come, first served (look-ups by id: `Lookups.ts`). Commands use `makeBatches` with a `FairQueue`, which
 * serves projects in turn.
 */
import { Context, Effect, Exit, Tracer } from "effect"
import { ServiceUnavailable } from "../api/Problems.ts"
import { beginBatch, beginWait, endSpan } from "../telemetry/Telemetry.ts"
import { startWithTimeout, timeLeft, unavailable } from "./Database.ts"

/** A call that waits, or runs as part of a batch. */
export interface Call<Input, Output, E> {
  readonly input: Input
  readonly context: Context.Context<never>
  /** The time that the caller still waited when it called, in milliseconds. */
  readonly left: number
  /** The time at which the caller stops waiting, in milliseconds of `performance.now()`. */
  readonly endsAt: number
  readonly resume: (effect: Effect.Effect<Output, E | ServiceUnavailable>) => void
  isWaiting: boolean
  timer: ReturnType<typeof setTimeout> | undefined
  /** The span of the wait, if the trace of the caller is recorded. */
  wait: Tracer.Span | undefined
}

/** The calls that wait, in the order in which they are served. */
export interface Line<Item> {
  readonly isEmpty: boolean
  /** Whether this item has to be refused, because too many wait. */
  readonly isFullFor: (item: Item) => boolean
  readonly add: (item: Item) => void
  readonly remove: (item: Item) => void
  /** Takes up to `max` items, which are in service until `done`. */
  readonly take: (max: number) => ReadonlyArray<Item>
  readonly done: (item: Item) => void
}

interface Options<Input, Answer, Output, E, E2> {
  readonly line: Line<Call<Input, Output, E2>>
  readonly maxBatch: number
  /** Maximum number of batches in flight. More calls wait. */
  readonly maxInFlight: number
  /** Whether a call starts at once under low load: the last batch was one call, and no call waits or is in flight. */
  readonly isEager: boolean
  /** Runs a batch, and returns an answer for each input, in order. It needs no timeout of its own. */
  readonly run: (inputs: ReadonlyArray<Input>) => Effect.Effect<ReadonlyArray<Answer>, E>
  /** Makes the result of a call from its answer or the failure of its batch. It may run another statement for it. */
  readonly settle: (input: Input, answer: Exit.Exit<Answer, E | ServiceUnavailable>) => Effect.Effect<Output, E2>
}

/**
 * A call is refused if it has waited for this share of the caller's time. An earlier refusal would save nothing,
 * because a refusal takes as much CPU time as an answer. The rest of the time is enough for the statement.
 */
const queueShare = 3 / 4

/**
 * A call may last this many milliseconds beyond the time limit of its caller. So most calls of a batch need no timer of their
 * own.
 */
const tolerance = 100

const overloaded = () =>
  new ServiceUnavailable({ detail: "Too many requests of this kind are waiting. Send the request again." })

/**
 * Makes a function that runs calls in batches. A batch starts at the end of the current turn of the event loop (`setImmediate`),
 * or when one of `maxInFlight` batches has ended. It runs in the context of the call with the most time left. A
 * caller waits at most as long as its context allows (`timeLeft`). When a caller stops waiting, its batch goes on for the others.
 */
export const makeBatches = <Input, Answer, Output, E, E2>({
  isEager,
  line,
  maxBatch,
  maxInFlight,
  run,
  settle
}: Options<Input, Answer, Output, E, E2>): ((input: Input) => Effect.Effect<Output, E2 | ServiceUnavailable>) => {
  type Item = Call<Input, Output, E2>
  let inFlight = 0
  let isScheduled = false
  let lastWasOne = false
  /**
   * The calls of this turn. The array is made with the first of them: an older one could be in the old generation, and V8 would keep
   * the calls with it until the next full collection, although nothing refers to it any more.
   */
  let arrived: Array<Item> = []

  const finish = (call: Item, result: Effect.Effect<Output, E2 | ServiceUnavailable>) => {
    clearTimeout(call.timer)
    line.done(call)
    call.resume(result)
  }

  const finishBy = (call: Item, result: Effect.Effect<Output, E2>) => {
    if (Exit.isExit(result)) return finish(call, result)
    clearTimeout(call.timer)
    Effect.runForkWith(call.context)(result).addObserver((exit) => {
      finish(call, exit)
      if (!isScheduled) dispatch()
    })
  }

  const send = (calls: ReadonlyArray<Item>, first: Item) => {
    inFlight++
    const longest = calls.reduce((longest, call) => (call.endsAt > longest.endsAt ? call : longest), first)
    for (const call of calls) {
      call.isWaiting = false
      clearTimeout(call.timer)
      if (call.endsAt < longest.endsAt - tolerance) {
        call.timer = setTimeout(() => call.resume(Effect.fail(unavailable())), call.endsAt - performance.now())
      }
    }
    const batch = beginBatch(calls)
    const context = batch === undefined ? longest.context : Context.add(longest.context, Tracer.ParentSpan, batch)
    startWithTimeout(run(calls.map(({ input }) => input)), context, (exit) => {
      inFlight--
      if (batch !== undefined) endSpan(batch, context, exit)
      if (Exit.isFailure(exit)) {
        for (const call of calls) finishBy(call, settle(call.input, Exit.failCause(exit.cause)))
      } else {
        for (const [index, answer] of exit.value.entries()) {
          const call = calls[index]
          if (call !== undefined) finishBy(call, settle(call.input, Exit.succeed(answer)))
        }
      }
      // If calls were added in this turn, they are all sent at its end.
      if (!isScheduled) dispatch()
    })
  }

  const dispatch = () => {
    let sent = 0
    while (inFlight < maxInFlight && !line.isEmpty) {
      const calls = line.take(maxBatch)
      const [first] = calls
      if (first === undefined) break
      sent += calls.length
      send(calls, first)
    }
    if (sent > 0) lastWasOne = sent === 1
    for (const call of arrived) if (call.isWaiting) limitWait(call)
    arrived = []
  }

  const limitWait = (call: Item) => {
    const rest = call.left * (1 - queueShare)
    call.timer = setTimeout(
      () => {
        leave(call)
        call.resume(Effect.fail(overloaded()))
      },
      call.endsAt - rest - performance.now()
    )
  }

  const leave = (call: Item) => {
    clearTimeout(call.timer)
    if (call.isWaiting) line.remove(call)
    if (call.wait !== undefined) endSpan(call.wait, call.context, Exit.void)
    call.isWaiting = false
  }

  const add = (call: Item) => {
    call.wait = beginWait(call.context)
    line.add(call)
    if (inFlight >= maxInFlight) return limitWait(call)
    if (isScheduled) return void arrived.push(call)
    arrived = [call]
    isScheduled = true
    setImmediate(() => {
      isScheduled = false
      dispatch()
    })
  }

  return (input) =>
    Effect.contextWith((context: Context.Context<never>) =>
      Effect.callback((resume) => {
        const left = timeLeft(context)
        const endsAt = performance.now() + left
        const call: Item = { input, context, left, endsAt, resume, isWaiting: true, timer: undefined, wait: undefined }
        if (isEager && lastWasOne && inFlight === 0 && line.isEmpty) send([call], call)
        else if (line.isFullFor(call)) return resume(Effect.fail(overloaded()))
        else add(call)
        return Effect.sync(() => leave(call))
      })
    )
}

/** Calls in order of arrival. */
class FirstCome<Item> implements Line<Item> {
  private waiting: Array<Item> = []
  private readonly capacity: number

  constructor(capacity: number) {
    this.capacity = capacity
  }

  get isEmpty(): boolean {
    return this.waiting.length === 0
  }

  isFullFor(): boolean {
    return this.waiting.length >= this.capacity
  }

  add(item: Item): void {
    this.waiting.push(item)
  }

  remove(item: Item): void {
    this.waiting = this.waiting.filter((other) => other !== item)
  }

  take(max: number): ReadonlyArray<Item> {
    return this.waiting.splice(0, max)
  }

  done(): void {}
}

/**
 * Makes a function that runs calls in batches, in order of arrival. `run` returns one output for each input, in the order of the
 * inputs. If a batch fails, all its calls fail. At most `capacity` calls wait.
 */
export const coalesce = <Input, Output, E>(
  maxBatch: number,
  run: (inputs: ReadonlyArray<Input>) => Effect.Effect<ReadonlyArray<Output>, E>,
  { capacity = Infinity, maxInFlight = Infinity }: { readonly capacity?: number; readonly maxInFlight?: number } = {}
): ((input: Input) => Effect.Effect<Output, E | ServiceUnavailable>) =>
  makeBatches({
    line: new FirstCome<Call<Input, Output, E | ServiceUnavailable>>(capacity),
    maxBatch,
    maxInFlight,
    isEager: true,
    run,
    settle: (_, answer) => answer
  })
