/** Runs a mutation of one command as a statement of its own. */
import { Effect } from "effect"
import type { IdempotencyKeyReused, ServiceUnavailable } from "../api/Problems.ts"
import { Contended, statement } from "../sql/Database.ts"
import { type Attempt, attempt, originOf } from "./Attempt.ts"
import type { Command, Mutation, Outcome } from "./Idempotency.ts"
import type { MutationClient } from "./Mutations.ts"
import { outcomeOf, replayOrRun } from "./Outcomes.ts"

/**
 * Runs a mutation once per key, in one round trip. If nothing was applied (a replay, a reused key or a failed guard), another
 * round trip reads the stored outcome of the key. For a key that this process has recently seen, the outcome is read first.
 */
export const mutate = <Problem, Returned = null>(
  client: MutationClient,
  command: Command,
  { at, decided, effect, problems, returning }: Mutation<Problem>
): Effect.Effect<Outcome<Returned>, Problem | IdempotencyKeyReused | ServiceUnavailable> => {
  const { permits, sql } = client
  const { fingerprint, ifMatch = null, key, projectId } = command
  const text = Effect.withFiber((fiber) =>
    attempt<Returned>(sql, {
      requested: sql`
        SELECT 1 AS ord, ${projectId}::text COLLATE "C" AS project_id, ${key}::text COLLATE "C" AS key,
          ${fingerprint}::bytea AS fingerprint, ${at}::timestamptz AS at,
          ${ifMatch}::bigint[] AS "ifMatch", ${originOf(fiber, command.operation)}::text[] AS origin`,
      isOne: true,
      decided,
      effect,
      returning
    })
  )
  const one = Effect.flatMap(text, ([row]) => (row === undefined ? Effect.fail(new Contended()) : Effect.succeed(row)))
  const run: Effect.Effect<Attempt<Returned>, ServiceUnavailable> = statement(permits.withPermit(projectId)(one))
  return replayOrRun(client, command, outcomeOf(client, command, problems, run))
}
