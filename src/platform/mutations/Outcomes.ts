/** Decides the outcome of a command from its attempt and from the outcome that is stored under its key. */
import { Effect } from "effect"
import { IdempotencyKeyReused, type ServiceUnavailable } from "../../api/Problems.ts"
import { ProjectLocked } from "../database/Database.ts"
import type { Attempt } from "./Attempt.ts"
import type { Command, Outcome, Problems } from "./Idempotency.ts"
import type { MutationClient, Stored } from "./Mutations.ts"

/**
 * Looks for a stored outcome first if this process has recently seen the key, as that costs less than the mutation. Runs the
 * mutation if there is none.
 */
export const replayOrRun = <Returned, E>(
  client: MutationClient,
  command: Command,
  run: Effect.Effect<Outcome<Returned>, E>
): Effect.Effect<Outcome<Returned>, E | IdempotencyKeyReused | ServiceUnavailable> => {
  const { keys, stored } = client
  const known = (first: Stored | undefined): Effect.Effect<Outcome<Returned>, E | IdempotencyKeyReused> =>
    first === undefined ? run : replay(command, first)
  return Effect.catchIf(
    keys.has(command) ? Effect.flatMap(stored(command), known) : run,
    (error): error is E & ProjectLocked => error instanceof ProjectLocked,
    (locked) => replayWhileLocked<Returned>(client, command, locked)
  )
}

/** Replays the stored outcome of a key while the project is locked; without one, fails with the lock. */
const replayWhileLocked = <Returned>(
  { stored }: MutationClient,
  command: Command,
  locked: ProjectLocked
): Effect.Effect<Outcome<Returned>, IdempotencyKeyReused | ServiceUnavailable> =>
  Effect.flatMap(
    stored(command),
    (first): Effect.Effect<Outcome<Returned>, IdempotencyKeyReused | ServiceUnavailable> =>
      first === undefined ? Effect.fail(locked) : replay(command, first)
  )

/** Returns the outcome of an attempt. If it changed nothing, the stored outcome of the key shows why. */
export const outcomeOf = <Problem, Returned>(
  client: MutationClient,
  command: Command,
  problems: Problems<Problem>,
  run: Effect.Effect<Attempt<Returned>, ServiceUnavailable>
): Effect.Effect<Outcome<Returned>, Problem | IdempotencyKeyReused | ServiceUnavailable> =>
  Effect.flatMap(run, (attempt) => {
    if (attempt.claimed) {
      client.keys.add(command)
      return Effect.succeed({ ...receipt(attempt), replayed: false, returned: attempt.returned })
    }
    // The first run of a repeated command may be the reason why a guard fails now, so its outcome takes precedence.
    return Effect.flatMap(client.stored(command), (first) => {
      if (first !== undefined) {
        client.keys.add(command)
        return replay(command, first)
      }
      if (attempt.failure !== null) return problemOf(attempt, attempt.failure, problems)
      // The key was taken at the attempt and pruned before the look-up: it is free at the next attempt.
      return outcomeOf(client, command, problems, run)
    })
  })

const replay = ({ fingerprint }: Command, first: Stored): Effect.Effect<Outcome<never>, IdempotencyKeyReused> =>
  Buffer.compare(first.fingerprint, fingerprint) === 0
    ? Effect.succeed({ ...receipt(first), replayed: true, returned: null })
    : Effect.fail(
        new IdempotencyKeyReused({
          detail: "Send a new idempotency-key with a new request; keep a key for repeats of the same one."
        })
      )

const problemOf = <Problem>(
  { version }: Pick<Attempt<unknown>, "version">,
  failure: string,
  problems: Problems<Problem>
): Effect.Effect<never, Problem> => {
  const [code = "", ...faults] = failure.split(" ")
  const problem = problems[code]
  return problem === undefined
    ? Effect.die(new Error(`A mutation failed for an unknown reason: ${code}`))
    : Effect.fail(problem({ version, faults }))
}

const receipt = ({ changed, resourceId, version }: Pick<Stored, "changed" | "resourceId" | "version">) => ({
  resourceId,
  changed,
  version
})
