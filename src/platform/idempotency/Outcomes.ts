/** Decides the outcome of a command from its attempt and from the outcome that is stored under its key. */
import { Effect } from "effect"
import { IdempotencyKeyReused, type ServiceUnavailable } from "../../api/Problems.ts"
import { ProjectLocked } from "../Database.ts"
import type { Attempt } from "./Attempt.ts"
import type { Command, Outcome, Problems } from "./Idempotency.ts"
import { type MutationClient, nameOf, type Stored } from "./Mutations.ts"

/**
 * Looks for a stored outcome first where this process has met the key lately, as that costs less than the mutation, and
 * runs the mutation if there is none.
 */
export const repeated = <Returned, E>(
  client: MutationClient,
  command: Command,
  run: Effect.Effect<Outcome<Returned>, E>
): Effect.Effect<Outcome<Returned>, E | IdempotencyKeyReused | ServiceUnavailable> => {
  const { keys, stored } = client
  const known = (first: Stored | undefined): Effect.Effect<Outcome<Returned>, E | IdempotencyKeyReused> =>
    first === undefined ? run : replay(command, first)
  return Effect.catchIf(
    keys.has(nameOf(command)) ? Effect.flatMap(stored(command), known) : run,
    (error): error is E & ProjectLocked => error instanceof ProjectLocked,
    (locked) => lockedOut<Returned>(client, command, locked)
  )
}

/** Answers what a key's first run did while the project is locked: nothing else can be told then. */
const lockedOut = <Returned>(
  { stored }: MutationClient,
  command: Command,
  locked: ProjectLocked
): Effect.Effect<Outcome<Returned>, IdempotencyKeyReused | ServiceUnavailable> =>
  Effect.flatMap(
    stored(command),
    (first): Effect.Effect<Outcome<Returned>, IdempotencyKeyReused | ServiceUnavailable> =>
      first === undefined ? Effect.fail(locked) : replay(command, first)
  )

/** What follows from an attempt. Where it changed nothing, only the stored outcome can tell why. */
export const settled = <Problem, Returned>(
  client: MutationClient,
  command: Command,
  problems: Problems<Problem>,
  run: Effect.Effect<Attempt<Returned>, ServiceUnavailable>
): Effect.Effect<Outcome<Returned>, Problem | IdempotencyKeyReused | ServiceUnavailable> =>
  Effect.flatMap(run, (attempt) => {
    if (attempt.claimed) {
      client.keys.add(nameOf(command))
      return Effect.succeed({ ...receipt(attempt), replayed: false, returned: attempt.returned })
    }
    // A failed guard says little as long as the key may be known: the command that it repeats has moved the guard.
    return Effect.flatMap(client.stored(command), (first) => {
      if (first !== undefined) {
        client.keys.add(nameOf(command))
        return replay(command, first)
      }
      if (attempt.failure !== null) return refused(attempt, attempt.failure, problems)
      // The key was taken at the first look and pruned before the second: the next look will find it free.
      return settled(client, command, problems, run)
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

const refused = <Problem>(
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
