/** Parts of the project file: schemas that its parts share, and the records of the CRM. */
import { Schema, Struct } from "effect"
import { Email, Instant, text } from "../api/schema/Fields.ts"
import { isBlank } from "../platform/Text.ts"
import { Address } from "../api/crm/Addresses.ts"
import { clientFields } from "../api/crm/Clients.ts"
import { dealFields } from "../api/crm/Deals.ts"
import { taskFields } from "../api/integrations/Events.ts"
import { ratingFields, TicketStatus } from "../api/crm/Tickets.ts"
import { ClientId, DealId, MemberId, OrganizationId, PipelineId, StageId, TaskId, TicketId } from "../api/schema/Ids.ts"

/** The check of the ids that a file gives to records. */
export const isVisible = Schema.isPattern(/^[\x21-\x7E]{1,160}$/u, {
  expected: "a string of 1 to 160 visible ASCII characters"
})

/** An id of a kind that has no schema in `api/schema/Ids.ts`. */
const id = text(1, 160).check(isVisible)

/** A name that can be read: with a character that is neither a space nor invisible. */
export const name = text(1, 160).check(
  Schema.makeFilter((value: string) => !isBlank(value), {
    expected: "a string of 1 to 160 characters, one of them visible"
  })
)

/** The maximum of PostgreSQL's `integer`. */
const maxInteger = 2_147_483_647

const integerFrom = (minimum: number) =>
  Schema.Int.check(
    Schema.isBetween({ minimum, maximum: maxInteger }, { expected: `an integer from ${minimum} to ${maxInteger}` })
  )

export const count = integerFrom(0)
export const positive = integerFrom(1)

/**
 * An optional member. If it is absent, an existing record keeps its value, and a new record gets `initial`. The schema only
 * documents `initial`. The upsert sets it, because it knows which records are new.
 */
export const optional = <S extends Schema.Top>(member: S, initial?: S["Encoded"]) =>
  Schema.optionalKey(member).annotateKey(initial === undefined ? {} : { default: initial })

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
