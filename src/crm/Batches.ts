/**
 * Batches of upserts (contract §7). A batch first stores its key, with a new id as its outcome. Then each item is an upsert of its own,
 * whose key is this id and the place of the item. So a repeat of the batch, also after a crash, is a repeat of each item: one that has
 * succeeded has a stored outcome, and any other is tried again. All upserts are in flight at once, so that they share groups.
 */
import { DateTime, Effect, Record, Result } from "effect"
import type { SqlClient } from "effect/sql"
import { IdempotencyKeyReused, PreconditionFailed, ServiceUnavailable, ValidationFailed } from "../api/Problems.ts"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import type { Kind } from "../commands/Kind.ts"
import { makeGrouped } from "../commands/Grouped.ts"
import type { Command, Outcome } from "../commands/Command.ts"
import { Mutations } from "../commands/Mutations.ts"
import { newId } from "../platform/Ids.ts"
import { type Problem, problemBody } from "../http/path/ProblemResponse.ts"
import { type Batched, hasCreated } from "../http/path/Handlers.ts"
import { without } from "./References.ts"

/** Stores the key of a batch. The outcome is the id of the batch. */
const begin = (sql: SqlClient.SqlClient): Kind<{ readonly id: string }, never> => ({
  args: { id: "text" },
  decided: () => sql`
    decided AS MATERIALIZED (
      SELECT command.*, NULL::text AS failure, NULL::text[] AS faults, id AS resource_id, true AS changed, NULL::int AS version
      FROM command
    )`,
  effect: () => sql`nothing AS (SELECT)`,
  problems: {}
})

type Never = IdempotencyKeyReused | PreconditionFailed

type Done<E> =
  | { readonly externalId: string; readonly resourceId: string; readonly created: boolean; readonly changed: boolean }
  | { readonly externalId: string; readonly problem: E }

/** Makes a function that runs a batch. An item has a key of its own and no condition, so it has no problem of these (`Never`). */
export const makeBatch = Effect.map(Mutations, (mutations) => {
  const beginning = makeGrouped(mutations, begin(mutations.sql))
  return Effect.fnUntraced(function* <I extends { readonly externalId: string }, E extends Problem>(
    command: Command,
    items: ReadonlyArray<I>,
    upsert: (command: Command, item: I) => Effect.Effect<Outcome<unknown>, E | Never | ServiceUnavailable>
  ): Effect.fn.Return<Batched<Done<E | ServiceUnavailable>>, IdempotencyKeyReused | ServiceUnavailable> {
    const batch = { id: yield* newId("bat") }
    const { resourceId: id } = yield* beginning(command, yield* DateTime.nowAsDate, batch)
    const run = (item: I, index: number) =>
      asItem(upsert({ ...command, key: `${id} ${index}` }, item)).pipe(
        Effect.result,
        Effect.map((result) => [item.externalId, result] as const)
      )
    const done = yield* Effect.forEach(items, run, { concurrency: "unbounded" })
    const [outage, ...outages] = done.flatMap(([, result]) => (isOutage(result) ? [result.failure] : []))
    // If no item could be tried, the batch is not answered as if it had been.
    if (outage !== undefined && outages.length + 1 === items.length) return yield* outage
    const { id: requestId } = yield* CurrentRequest
    return {
      results: done.map(([externalId, result], index) => {
        if (Result.isFailure(result)) return { externalId, problem: problemOf(result.failure, index, requestId) }
        const { changed, resourceId } = result.success
        return { externalId, resourceId, created: hasCreated(result.success), changed }
      }),
      replayed: done.every(([, result]) => Result.isSuccess(result) && result.success.replayed)
    }
  })
})

const asItem = without<Never>(IdempotencyKeyReused, PreconditionFailed)

const isOutage = (result: Result.Result<unknown, unknown>): result is Result.Failure<unknown, ServiceUnavailable> =>
  Result.isFailure(result) && result.failure instanceof ServiceUnavailable

/** Returns the body of an item's problem, whose locations are those in the body of the batch. */
const problemOf = <E extends Problem>(problem: E, index: number, requestId: string): E =>
  JSON.parse(problemBody(problem instanceof ValidationFailed ? within(problem, index) : problem, requestId))

const within = ({ errors }: ValidationFailed, index: number) =>
  new ValidationFailed({
    errors: Record.mapKeys(errors, (location) => location.replace(/^body/, `body/items/${index}`))
  })
