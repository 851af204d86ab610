/** Ratings of tickets (contract §7). */
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { TicketRating } from "../api/crm/Tickets.ts"
import type { TicketId } from "../api/Ids.ts"
import type {
  IdempotencyKeyReused,
  RatingCustomerOwned,
  ServiceUnavailable,
  TicketNotFound,
  TicketNotRateable
} from "../api/Problems.ts"
import type { Command, Outcome } from "../platform/idempotency/Idempotency.ts"
import { mutate } from "../platform/idempotency/Mutate.ts"
import { Mutations } from "../platform/idempotency/Mutations.ts"
import { rate } from "./Tickets/Repo.ts"

export class Tickets extends Context.Service<
  Tickets,
  {
    /** Records the operator's rating of a resolved or closed ticket. It replaces the operator's earlier rating. */
    readonly rate: (
      command: Command,
      id: TicketId,
      rating: TicketRating
    ) => Effect.Effect<
      Outcome,
      IdempotencyKeyReused | TicketNotFound | TicketNotRateable | RatingCustomerOwned | ServiceUnavailable
    >
  }
>()("developer-api/crm/Tickets") {
  static readonly layer = Layer.effect(
    Tickets,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const mutations = yield* Mutations
      return {
        rate: Effect.fnUntraced(function* (command, id, rating) {
          const at = new Date(yield* Clock.currentTimeMillis)
          return yield* mutate(mutations, command, rate(sql, command.projectId, id, rating, at))
        })
      }
    })
  )
}
