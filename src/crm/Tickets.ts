/** Ratings of tickets (contract §7). */
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { rateable, type TicketRating } from "../api/crm/Tickets.ts"
import { details } from "../api/Details.ts"
import type { ProjectId, TicketId } from "../api/schema/Ids.ts"
import { RatingCustomerOwned, TicketNotFound, TicketNotRateable } from "../api/Problems.ts"
import type { Command, Mutation } from "../platform/mutations/Idempotency.ts"
import { mutate } from "../platform/mutations/Mutate.ts"
import { Mutations } from "../platform/mutations/Mutations.ts"

/** Makes the command that rates a resolved or closed ticket. A new rating replaces the operator's earlier rating. */
export const makeRateTicket = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  return (command: Command, id: TicketId, rating: TicketRating) =>
    Effect.flatMap(DateTime.nowAsDate, (now) =>
      mutate(mutations, command, rate(sql, command.projectId, id, rating, now))
    )
})

const rate = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  id: TicketId,
  { comment = null, score }: TicketRating,
  at: Date
): Mutation<TicketNotFound | TicketNotRateable | RatingCustomerOwned> => ({
  at,
  verdict: sql`
    target AS MATERIALIZED (
      SELECT ticket.* FROM project, LATERAL (
        SELECT * FROM tickets WHERE project_id = project.project_id AND id = ${id} FOR NO KEY UPDATE
      ) ticket
    ),
    verdict AS (
      SELECT
        CASE
          WHEN target.id IS NULL THEN 'ticket_not_found'
          WHEN target.status <> ALL(${[...rateable]}::text[]) THEN 'ticket_not_rateable'
          WHEN target.rating_by = 'customer' THEN 'rating_customer_owned'
        END AS failure,
        ${id}::text AS resource_id, differs AS changed, target.version + differs::int AS version
      FROM project LEFT JOIN target ON true, LATERAL (
        SELECT (target.rating_score, target.rating_comment) IS DISTINCT FROM (${score}::smallint, ${comment}::text)
      ) AS difference (differs)
    )`,
  effect: sql`
    rated AS (
      UPDATE tickets SET rating_score = ${score}::smallint, rating_comment = ${comment}::text, rating_by = 'operator',
        version = tickets.version + 1
      FROM claim
      WHERE tickets.project_id = ${projectId} AND tickets.id = ${id} AND claim.changed
    )`,
  problems: {
    ticket_not_found: () => new TicketNotFound({ detail: details.ticket_not_found }),
    ticket_not_rateable: () => new TicketNotRateable({ detail: details.ticket_not_rateable }),
    rating_customer_owned: () => new RatingCustomerOwned({ detail: details.rating_customer_owned })
  }
})
