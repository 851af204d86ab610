/**
 * The queue of one kind of mutation. It forms groups of commands, and runs at most two groups at once. A group is one statement.
 * A command that its group can't decide, because its record is locked for example, runs alone.
 */
import { Cause, type Context, Effect, Exit } from "effect"
import { ServiceUnavailable } from "../../api/Problems.ts"
import { type Contended, startWithTimeout, timeLeft, unavailable } from "../database/Database.ts"
import { FairQueue, type Queued } from "./FairQueue.ts"

const maxGroup = 32
/** Maximum number of groups of a kind in flight. More groups would wait for each other in the database. */
const maxGroups = 2

/**
 * A request is refused if it has waited for its turn for this share of the caller's time. An earlier refusal would save nothing,
 * because a refusal takes as much CPU time as an answer. The rest of the time is enough for the statement.
 */
const queueShare = 3 / 4

const overloaded = () =>
  new ServiceUnavailable({ detail: "Too many requests of this kind are waiting. Send the request again." })

interface Waiting<Request, Answer> extends Queued {
  readonly request: Request
  readonly context: Context.Context<never>
  /** Time at which the caller stops waiting, in milliseconds of `performance.now()`. */
  readonly endsAt: number
  readonly resume: (effect: Effect.Effect<Answer, ServiceUnavailable>) => void
}

/**
 * Makes the function that runs a request. `group` returns one answer for each request, in order; undefined if the group can't
 * decide the request. `alone` then runs the request. `group` needs no timeout of its own.
 *
 * A request is sent at the end of the current turn of the event loop (`setImmediate`), or with the next group if two groups are
 * in flight. A caller waits at most as long as its context allows (`timeLeft`). A request that was sent runs to its end, even if
 * its caller is interrupted.
 */
export const groups = <Request extends Queued, Answer>({
  alone,
  group
}: {
  readonly group: (
    requests: ReadonlyArray<Request>
  ) => Effect.Effect<ReadonlyArray<Answer | undefined>, Contended | ServiceUnavailable>
  readonly alone: (request: Request) => Effect.Effect<Answer, ServiceUnavailable>
}): ((request: Request) => Effect.Effect<Answer, ServiceUnavailable>) => {
  type Entry = Waiting<Request, Answer>
  const queue = new FairQueue<Entry>()
  let inFlight = 0
  let scheduled = false

  const finish = (entry: Entry, effect: Effect.Effect<Answer, ServiceUnavailable>) => {
    queue.done(entry)
    entry.resume(effect)
  }

  const runAlone = (entry: Entry) => {
    const fiber = Effect.runForkWith(entry.context)(alone(entry.request))
    fiber.addObserver((exit) => {
      finish(entry, exit)
      dispatch()
    })
  }

  /** Runs a group, in the `context` of the entry with the most time left. Each entry has its own timer. */
  const runGroup = (entries: ReadonlyArray<Entry>, context: Context.Context<never>) => {
    inFlight++
    const answers = group(entries.map(({ request }) => request))
    startWithTimeout(answers, context, (exit) => {
      inFlight--
      for (const [index, entry] of entries.entries()) {
        const answer = Exit.isSuccess(exit) ? exit.value[index] : undefined
        const failure = Exit.isFailure(exit) ? unavailableIn(exit.cause) : undefined
        if (answer !== undefined) finish(entry, Effect.succeed(answer))
        else if (failure !== undefined) finish(entry, Effect.fail(failure))
        else runAlone(entry)
      }
      dispatch()
    })
  }

  const dispatch = () => {
    while (inFlight < maxGroups && !queue.isEmpty) {
      const entries = queue.take(maxGroup)
      const [first] = entries
      if (first === undefined) return
      const longest = entries.reduce((longest, entry) => (entry.endsAt > longest.endsAt ? entry : longest), first)
      runGroup(entries, longest.context)
    }
  }

  const schedule = () => {
    if (scheduled || inFlight === maxGroups) return
    scheduled = true
    setImmediate(() => {
      scheduled = false
      dispatch()
    })
  }

  return (request) =>
    Effect.contextWith((context: Context.Context<never>) =>
      Effect.callback((resume) => {
        const { names, projectId } = request
        if (queue.isFullFor(projectId)) return resume(Effect.fail(overloaded()))
        const left = timeLeft(context)
        const end = (problem: ServiceUnavailable) => {
          queue.remove(entry)
          resume(Effect.fail(problem))
        }
        let timer = setTimeout(() => {
          if (queue.isDelayed(entry)) end(overloaded())
          else timer = setTimeout(() => end(unavailable()), left * (1 - queueShare))
        }, left * queueShare)
        const entry: Entry = {
          projectId,
          names,
          request,
          context,
          endsAt: performance.now() + left,
          resume: (effect) => {
            clearTimeout(timer)
            resume(effect)
          }
        }
        queue.add(entry)
        schedule()
        return Effect.sync(() => {
          clearTimeout(timer)
          queue.remove(entry)
        })
      })
    )
}

/** Returns the failure of a group if the database did not answer. The requests would then also fail if each ran alone. */
const unavailableIn = (cause: Cause.Cause<Contended | ServiceUnavailable>): ServiceUnavailable | undefined =>
  cause.reasons
    .filter(Cause.isFailReason)
    .map(({ error }) => error)
    .find((error) => error._tag !== "Contended")
