/** Tickets and their ratings (contract §7). Project files create tickets. */
import { DateTime, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { rateable, type Ticket, type TicketFilters, type TicketRating } from "../api/crm/Tickets.ts"
import type { ProjectId, TicketId } from "../api/schema/Ids.ts"
import { type PreconditionFailed, RatingCustomerOwned, TicketNotFound, TicketNotRateable } from "../api/Problems.ts"
import { statement } from "../sql/Database.ts"
import type { Kind } from "../commands/Kind.ts"
import { makeGrouped } from "../commands/Grouped.ts"
import { type Command, plain, preconditionFailed } from "../commands/Command.ts"
import { Mutations } from "../commands/Mutations.ts"
import { pageConditionById, pageLimit, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"

export const makeListTickets = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  return (projectId: ProjectId, { cursor, limit, ...filters }: PageQuery & TicketFilters) =>
    pages.readById({ projectId, operation: "listTickets", filters: { ...filters } }, { cursor, limit }, (window) =>
      statement(list(sql, projectId, filters, window))
    )
})

/** Lists tickets by an index that has the filters before the order (`migrations/0024_lists_of_references.ts`). */
const list = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  { clientId, status }: TicketFilters,
  window: Window
) => sql<Ticket>`
  SELECT id, subject, status, client_id AS "clientId",
    CASE WHEN rating_score IS NOT NULL THEN
      json_build_object('score', rating_score, 'comment', rating_comment, 'by', rating_by)
    END AS rating
  FROM tickets
  WHERE project_id = ${projectId} ${clientId === undefined ? sql.literal("") : sql`AND client_id = (SELECT ${clientId}::text)`}
    ${sql.literal(status === "all" ? "" : `AND status COLLATE "C" = '${status}' AND id > ''`)} ${pageConditionById(sql, window.after)}
  ORDER BY id ${pageLimit(sql, window)}`

/** Makes the command that rates a resolved or closed ticket. A new rating replaces the operator's earlier rating. */
export const makeRateTicket = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rating = makeGrouped(yield* Mutations, rate(sql))
  return (command: Command, id: TicketId, { comment = null, score }: TicketRating) =>
    Effect.flatMap(DateTime.nowAsDate, (now) => rating(command, now, { id, score, comment }))
})

interface Rating {
  readonly id: TicketId
  readonly score: number
  readonly comment: string | null
}

const isRateable = `status IN (${rateable.map((status) => `'${status}'`).join(", ")})`

const rate = (
  sql: SqlClient.SqlClient
): Kind<Rating, TicketNotFound | TicketNotRateable | RatingCustomerOwned | PreconditionFailed> => ({
  args: { id: "text", score: "smallint", comment: "text" },
  takes: ({ id }) => [id],
  decided: ({ absent, holds, inOrder, locked }) => sql`
    target AS MATERIALIZED (
      SELECT command.ord, ticket.*, (rating_score, rating_comment) IS DISTINCT FROM (score, comment) AS differs
      FROM ${inOrder}, LATERAL (
        SELECT status, rating_by, rating_score, rating_comment, version AS old_version FROM tickets
        WHERE project_id = command.project_id AND id = command.id
        FOR NO KEY UPDATE ${locked}
      ) AS ticket
    ),
    decided AS MATERIALIZED (
      SELECT command.*,
        CASE
          WHEN target.ord IS NULL THEN ${absent(sql`SELECT FROM tickets WHERE project_id = command.project_id AND id = command.id`, "ticket_not_found")}
          WHEN NOT ${holds} THEN 'precondition_failed'
          WHEN NOT ${sql.literal(isRateable)} THEN 'ticket_not_rateable'
          WHEN rating_by = 'customer' THEN 'rating_customer_owned'
        END AS failure, NULL::text[] AS faults,
        command.id AS resource_id, differs AS changed, old_version + (differs AND ${holds} IS NOT FALSE)::int AS version
      FROM command LEFT JOIN target ON target.ord = command.ord
    )`,
  effect: () => sql`
    rated AS (
      UPDATE tickets SET rating_score = applied.score, rating_comment = applied.comment, rating_by = 'operator',
        version = tickets.version + 1
      FROM applied
      WHERE tickets.project_id = applied.project_id AND tickets.id = applied.id AND applied.changed
    )`,
  problems: { ...preconditionFailed, ...plain(TicketNotFound, TicketNotRateable, RatingCustomerOwned) }
})
