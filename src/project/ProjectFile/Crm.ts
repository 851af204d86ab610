/** The CRM's part of a project file: who and what the project deals with. */
import { Schema } from "effect"
import { clientFields, ClientStatus } from "../../api/crm/Clients.ts"
import { Email, text } from "../../api/Fields.ts"
import { ClientId, MemberId, OrganizationId } from "../../api/Ids.ts"
import { count, id, name, optional } from "./Parts.ts"
import { CalendarDate, Instant } from "./Times.ts"

export const Member = Schema.Struct({
  id: MemberId,
  name,
  email: optional(Schema.NullOr(Email)),
  active: optional(Schema.Boolean, true)
})

export const Organization = Schema.Struct({
  id: OrganizationId,
  name,
  archived: optional(Schema.Boolean, false)
})

export const Pipeline = Schema.Struct({
  id,
  name,
  stages: Schema.Array(Schema.Struct({ id, name })).check(Schema.isMinLength(1, { expected: "at least one stage" }))
})

export const LoyaltyLevel = Schema.Struct({ id, name })
export const StampOffer = Schema.Struct({ id, name })

const Loyalty = Schema.Struct({
  cardNumber: optional(Schema.NullOr(text(1, 160))),
  levelId: optional(Schema.NullOr(id)),
  balance: optional(count, 0),
  readyStampOfferIds: optional(Schema.Array(id), [])
})

export const Client = Schema.Struct({
  id: ClientId,
  displayName: clientFields.displayName,
  firstName: optional(clientFields.firstName),
  lastName: optional(clientFields.lastName),
  email: optional(clientFields.email),
  phone: optional(clientFields.phone),
  tags: optional(clientFields.tags, []),
  externalId: optional(clientFields.externalId),
  status: optional(ClientStatus, "active"),
  organizationId: optional(Schema.NullOr(OrganizationId)),
  responsibleMemberId: optional(Schema.NullOr(MemberId)),
  marketingConsent: optional(Schema.Boolean, false),
  suppressed: optional(Schema.Boolean, false),
  mergedIntoClientId: optional(Schema.NullOr(ClientId)),
  createdAt: optional(Instant),
  addresses: optional(Schema.Array(Schema.Struct({ channelId: id, address: text(1, 500) })), []),
  loyalty: optional(Schema.NullOr(Loyalty))
})

export const Deal = Schema.Struct({
  id,
  title: text(1, 160),
  clientId: optional(Schema.NullOr(ClientId)),
  organizationId: optional(Schema.NullOr(OrganizationId)),
  pipelineId: optional(id),
  stageId: optional(id),
  status: optional(Schema.Literals(["open", "won", "lost"]), "open"),
  lifecycle: optional(Schema.Literals(["active", "archived"]), "active"),
  amountMinor: optional(
    Schema.NullOr(
      Schema.Int.check(
        Schema.isGreaterThanOrEqualTo(0, { expected: `an integer from 0 to ${Number.MAX_SAFE_INTEGER}` })
      )
    )
  ),
  currency: optional(
    Schema.NullOr(Schema.String.check(Schema.isPattern(/^[A-Z]{3}$/, { expected: "a currency code of ISO 4217" })))
  ),
  expectedCloseDate: optional(Schema.NullOr(CalendarDate)),
  responsibleMemberId: optional(Schema.NullOr(MemberId)),
  lostReason: optional(Schema.NullOr(text(1, 500))),
  closedAt: optional(Schema.NullOr(Instant)),
  createdAt: optional(Instant)
})

const Rating = Schema.Struct({
  score: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 5 }, { expected: "an integer from 1 to 5" })),
  comment: optional(Schema.NullOr(text(1, 1000))),
  by: Schema.Literals(["customer", "operator"])
})

export const Ticket = Schema.Struct({
  id,
  subject: text(1, 500),
  status: Schema.Literals(["open", "pending", "resolved", "closed"]),
  clientId: optional(Schema.NullOr(ClientId)),
  rating: optional(Schema.NullOr(Rating))
})

export const Task = Schema.Struct({
  id,
  title: text(1, 160),
  dealId: optional(Schema.NullOr(id)),
  clientId: optional(Schema.NullOr(ClientId)),
  assigneeId: optional(Schema.NullOr(MemberId)),
  dueAt: optional(Schema.NullOr(Instant)),
  completedAt: optional(Schema.NullOr(Instant))
})
