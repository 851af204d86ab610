/** Decides the outcome of a command from its attempt and from the outcome that is stored under its key. */
import { Effect } from "effect"
import { IdempotencyKeyReused, type ServiceUnavailable } from "../api/Problems.ts"
import { ProjectLocked } from "../sql/Database.ts"
import type { Attempt } from "./Attempt.ts"
import type { Command, Outcome, Problems } from "./Idempotency.ts"
import type { MutationClient, Stored } from "./Mutations.ts"

/**
 * Runs a mutation. If this process has recently seen the key, the stored outcome is looked up first, because a look-up costs
 * less than the mutation. A stored outcome is replayed even while the project is locked.
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
    // A stored outcome takes precedence over a failed guard: the guard may fail because of the first run's effect.
    return Effect.flatMap(client.stored(command), (first) => {
      if (first !== undefined) {
        client.keys.add(command)
        return replay(command, first)
      }
      if (attempt.failure !== null) return problemOf(attempt.failure, attempt, problems)
      // The key was taken during the attempt, and was pruned before the look-up. It is free for the next attempt.
      return outcomeOf(client, command, problems, run)
    })
  })

const replay = ({ fingerprint }: Command, first: Stored): Effect.Effect<Outcome<never>, IdempotencyKeyReused> =>
  Buffer.compare(first.fingerprint, fingerprint) === 0
    ? Effect.succeed({ ...receipt(first), replayed: true, returned: null })
    : Effect.fail(new IdempotencyKeyReused())

const problemOf = <Problem>(
  failure: string,
  { faults, version }: Pick<Attempt<unknown>, "faults" | "version">,
  problems: Problems<Problem>
): Effect.Effect<never, Problem> => {
  const problem = problems[failure]
  return problem === undefined
    ? Effect.die(new Error(`A mutation failed for an unknown reason: ${failure}`))
    : Effect.fail(problem({ version, faults: faults ?? [] }))
}

const receipt = ({ changed, resourceId, version }: Pick<Stored, "changed" | "resourceId" | "version">) => ({
  resourceId,
  changed,
  version
})
