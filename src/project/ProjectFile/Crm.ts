import { Schema, Struct } from "effect"
import { Address } from "../../api/crm/Addresses.ts"
import { clientFields } from "../../api/crm/Clients.ts"
import { dealFields } from "../../api/crm/Deals.ts"
import { taskFields } from "../../api/integrations/Events.ts"
import { ratingFields, TicketStatus } from "../../api/crm/Tickets.ts"
import { Email, Instant, text } from "../../api/schema/Fields.ts"
import {
  ClientId,
  DealId,
  MemberId,
  OrganizationId,
  PipelineId,
  StageId,
  TaskId,
  TicketId
} from "../../api/schema/Ids.ts"
import { count, id, isVisible, name, optional } from "./Parts.ts"

export const Member = Schema.Struct({
  id: MemberId.check(isVisible),
  name,
  email: optional(Schema.NullOr(Email)),
  active: optional(Schema.Boolean, true)
})

export const Organization = Schema.Struct({
  id: OrganizationId.check(isVisible),
  name,
  archived: optional(Schema.Boolean, false)
})

export const Pipeline = Schema.Struct({
  id: PipelineId.check(isVisible),
  name,
  stages: Schema.Array(Schema.Struct({ id: StageId.check(isVisible), name })).check(
    Schema.isMinLength(1, { expected: "at least one stage" })
  )
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
  id: ClientId.check(isVisible),
  ...Struct.map(clientFields, Schema.optionalKey),
  displayName: clientFields.displayName,
  tags: optional(clientFields.tags, []),
  status: optional(clientFields.status, "active"),
  marketingConsent: optional(clientFields.marketingConsent, false),
  suppressed: optional(clientFields.suppressed, false),
  mergedIntoClientId: optional(Schema.NullOr(ClientId)),
  createdAt: optional(Instant),
  addresses: optional(Schema.Array(Address), []),
  loyalty: optional(Schema.NullOr(Loyalty))
})

export const Deal = Schema.Struct({
  id: DealId.check(isVisible),
  ...Struct.map(dealFields, Schema.optionalKey),
  title: dealFields.title,
  status: optional(dealFields.status, "open"),
  lifecycle: optional(dealFields.lifecycle, "active"),
  closedAt: optional(Schema.NullOr(Instant)),
  createdAt: optional(Instant)
})

const Rating = Schema.Struct({ ...ratingFields, by: Schema.Literals(["customer", "operator"]) })

export const Ticket = Schema.Struct({
  id: TicketId.check(isVisible),
  subject: text(1, 500),
  status: TicketStatus,
  clientId: optional(Schema.NullOr(ClientId)),
  rating: optional(Schema.NullOr(Rating))
})

export const Task = Schema.Struct({
  id: TaskId.check(isVisible),
  title: taskFields.title,
  dealId: optional(Schema.NullOr(DealId)),
  clientId: optional(Schema.NullOr(ClientId)),
  assigneeId: optional(Schema.NullOr(MemberId)),
  dueAt: optional(taskFields.dueAt),
  completedAt: optional(Schema.NullOr(Instant))
})
