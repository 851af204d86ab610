/** The endpoints that list tickets, and that record an operator's rating of a ticket (contract §7). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, Examples } from "../Access.ts"
import { changeBy, filterBy, listOf, MutationHeaders, pageQuery } from "../Endpoints.ts"
import { text } from "../schema/Fields.ts"
import { ClientId, TicketId } from "../schema/Ids.ts"
import { RatingCustomerOwned, TicketNotFound, TicketNotRateable } from "../Problems.ts"
import { JsonBody } from "../Requests.ts"

export const TicketStatus = Schema.Literals(["open", "pending", "resolved", "closed"])
export type TicketStatus = typeof TicketStatus.Type

export const rateable = ["resolved", "closed"] as const satisfies ReadonlyArray<TicketStatus>

/** The fields of a rating, with their types in the API and the project file. */
export const ratingFields = {
  score: Schema.Int.check(
    Schema.isBetween({ minimum: 1, maximum: 5 }, { expected: "an integer from 1 to 5" })
  ).annotate({
    description: "The rating: an integer from 1, the worst, to 5, the best."
  }),
  comment: Schema.optionalKey(
    Schema.NullOr(text(1, 1000)).annotate({
      description:
        "What the operator adds to the score: 1 to 1000 characters; absent or null removes an earlier comment."
    })
  )
}

export const TicketRating = Schema.Struct(ratingFields).annotate({ identifier: "DeveloperTicketRating" })
export type TicketRating = typeof TicketRating.Type

export const Ticket = Schema.Struct({
  id: TicketId,
  subject: text(1, 500).annotate({ description: "What the ticket is about: 1 to 500 characters." }),
  status: TicketStatus.annotate({
    description: `The state. A ticket can be rated while it is ${rateable.map((state) => `\`${state}\``).join(" or ")}.`
  }),
  clientId: Schema.NullOr(ClientId).annotate({ description: "The id of the client who asked; null if there is none." }),
  rating: Schema.NullOr(
    Schema.Struct({
      score: ratingFields.score,
      comment: Schema.NullOr(text(1, 1000)).annotate({
        description: "The comment: 1 to 1000 characters; null if there is none."
      }),
      by: Schema.Literals(["customer", "operator"]).annotate({
        description: "Who rated the ticket. A rating by the customer cannot be replaced."
      })
    })
  ).annotate({ description: "The rating; null until the ticket is rated." })
}).annotate({ identifier: "DeveloperTicket" })
export type Ticket = typeof Ticket.Type

const TicketStatusFilter = Schema.Literals([...TicketStatus.literals, "all"])

export interface TicketFilters {
  readonly status: typeof TicketStatusFilter.Type
  readonly clientId?: ClientId | undefined
}

export class TicketsGroup extends HttpApiGroup.make("tickets")
  .add(
    HttpApiEndpoint.get("listTickets", "/v1/developer/crm/tickets", {
      ...listOf(Ticket, {
        status: filterBy(TicketStatusFilter.literals, "all"),
        clientId: Schema.optionalKey(ClientId),
        ...pageQuery(512)
      })
    })
      .annotate(Access, { scope: "crm.tickets.ratings.write", module: "tickets", policy: "read" })
      .annotate(Examples, {
        answer: {
          items: [
            {
              id: "tic_descaling",
              subject: "How often to descale?",
              status: "resolved",
              clientId: "cli_mara",
              rating: { score: 4, comment: null, by: "operator" }
            }
          ],
          nextCursor: null
        }
      })
      .annotate(OpenApi.Summary, "List tickets")
      .annotate(
        OpenApi.Description,
        "Lists the project's tickets with their ratings, ordered by id. By default, `status` is `all`."
      ),
    HttpApiEndpoint.put("rateTicket", "/v1/developer/crm/tickets/:ticketId/rating", {
      params: { ticketId: TicketId },
      payload: TicketRating,
      ...changeBy(MutationHeaders, TicketNotFound, TicketNotRateable, RatingCustomerOwned)
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "crm.tickets.ratings.write", module: "tickets", policy: "write" })
      .annotate(Examples, {
        request: { score: 4, comment: "Solved on the second call." },
        answer: { resourceId: "tic_1042", changed: true }
      })
      .annotate(OpenApi.Summary, "Rate a ticket")
      .annotate(
        OpenApi.Description,
        `Records the operator's rating of a ticket that is ${rateable.map((state) => `\`${state}\``).join(" or ")}. ` +
          "It replaces the operator's earlier rating and comment. If both are the same, `changed` is false. A rating by the " +
          "customer cannot be replaced. `resourceId` is the ticket's id."
      )
  )
  .annotate(OpenApi.Title, "CRM tickets")
  .annotate(OpenApi.Description, "Support tickets, and the ratings of resolved and closed ones.") {}
