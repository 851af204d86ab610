/** A model of the commands on deals (contract §7, §10). */
import { assert } from "@effect/vitest"
import { isDeepStrictEqual } from "node:util"
import type { DealStatus } from "../../src/api/crm/Deals.ts"
import type { DealShape } from "../support/ContractAnswers.ts"
import type { EventType } from "../support/Events.ts"
import { created, stageChanged, updated } from "./Deals.events.support.ts"

/** A deal without its id and its times, which the service chooses. */
export type Deal = Omit<DealShape, "id" | "createdAt" | "updatedAt" | "closedAt">
export type Patch = Partial<Omit<Deal, "version">>

/** The pipelines of `open`, the default one first, with their stages in order. */
const stagesOf: Readonly<Record<string, ReadonlyArray<string>>> = {
  sales: ["new", "agreed", "closing"],
  service: ["intake", "done"]
}
/** The other records of `open` to which a deal can refer. */
export const known = {
  clientId: ["c", "gone"],
  organizationId: ["o", "old"],
  responsibleMemberId: ["m", "idle"]
} as const
const references = ["clientId", "organizationId", "responsibleMemberId"] as const

/** A command: valid and invalid members of its body, and the index of the patched deal, null for a missing one. */
export type Command =
  | { readonly operation: "create"; readonly body: Patch; readonly faulty: object }
  | { readonly operation: "patch"; readonly deal: number | null; readonly body: Patch; readonly faulty: object }

/** A command as it is sent. */
export interface Sent {
  readonly command: Command
  /** The id of the patched deal; undefined for a create. */
  readonly id: string | undefined
  readonly body: object
  readonly key: string
}

export interface Refused {
  readonly status: 400 | 404 | 409
  readonly code: string
  readonly faults?: ReadonlyArray<string>
}

/** A deal before and after a command; the same object if nothing changed. */
export interface Done {
  readonly before: Deal | undefined
  readonly after: Deal
}

const invalid = (members: ReadonlyArray<string>): Refused => ({
  status: 400,
  code: "validation_failed",
  faults: members.map((member) => `body/${member}`).toSorted()
})
const taken: Refused = { status: 409, code: "external_id_taken" }
const noReference: Refused = { status: 404, code: "deal_reference_not_found" }

const moneyFaults = ({ amountMinor = null, currency = null }: { amountMinor?: unknown; currency?: unknown }) =>
  (amountMinor === null) === (currency === null) ? [] : [currency === null ? "currency" : "amountMinor"]

const referencesExist = (deal: Deal) =>
  references.every((member) => [null, ...known[member]].some((id) => id === deal[member])) &&
  (stagesOf[deal.pipelineId]?.includes(deal.stageId) ?? false)

/** Returns the faults in the shape of a request. */
const shapeFaults = ({ body, command }: Sent): Refused | undefined => {
  if (Object.keys(body).length === 0) return { status: 400, code: "validation_failed", faults: ["body"] }
  const faults = [...Object.keys(command.faulty), ...(command.operation === "create" ? moneyFaults(body) : [])]
  return faults.length === 0 ? undefined : invalid([...new Set(faults)])
}

/** Applies the rules of contract §7 to a create with a valid shape. */
const create = (body: Patch, others: ReadonlyArray<Deal>): Refused | Done => {
  const pipelineId = body.pipelineId ?? "sales"
  const after: Deal = {
    title: "",
    clientId: null,
    organizationId: null,
    status: "open",
    lifecycle: "active",
    amountMinor: null,
    currency: null,
    expectedCloseDate: null,
    responsibleMemberId: null,
    lostReason: null,
    externalId: null,
    version: 1,
    ...body,
    pipelineId,
    stageId: body.stageId ?? stagesOf[pipelineId]?.[0] ?? ""
  }
  if (!referencesExist(after)) return noReference
  return isTaken(after, others) ? taken : { before: undefined, after }
}

const isTaken = ({ externalId }: Deal, others: ReadonlyArray<Deal>) =>
  externalId !== null && others.some((other) => other.externalId === externalId)

const closed = (status: DealStatus) => status !== "open"

/**
 * Applies the rules of contract §7 to a patch with a valid shape. The contract does not say which of several refusals
 * is reported; the model reports those of the record itself before those of other records.
 */
const patch = (before: Deal | undefined, body: Patch, all: ReadonlyArray<Deal>): Refused | Done => {
  if (before === undefined) return { status: 404, code: "deal_not_found" }
  const next = { ...before, ...body }
  const { pipelineId, status } = next
  const moved = pipelineId !== before.pipelineId
  const after: Deal = {
    ...next,
    stageId: body.stageId ?? (moved ? (stagesOf[pipelineId]?.[0] ?? "") : before.stageId),
    lostReason: body.lostReason === undefined && status !== "lost" ? null : next.lostReason
  }
  const faults = [...moneyFaults(after), ...(status !== "lost" && after.lostReason !== null ? ["lostReason"] : [])]
  if (faults.length > 0) return invalid(faults)
  if (closed(before.status) && closed(status) && before.status !== status) {
    return { status: 400, code: "deal_status_invalid" }
  }
  if (!referencesExist(after)) return noReference
  const others = all.filter((deal) => deal !== before)
  if (isTaken(after, others)) return taken
  return { before, after: isDeepStrictEqual(after, before) ? before : { ...after, version: before.version + 1 } }
}

/** The state of the model: the deals, and the request and the answer of each key. */
export interface World {
  readonly deals: Map<string, Deal>
  readonly answered: Map<string, Replay>
}

/** The request of a key, and the receipt that its replays get. */
export interface Replay {
  readonly request: string
  readonly receipt: object
}

/** Returns the content of a request, independent of the order of its members. */
export const contentOf = ({ body, id }: Sent): string =>
  JSON.stringify([id, Object.entries(body).toSorted(([left], [right]) => (left < right ? -1 : 1))])

/** Returns the outcome of a command. Its shape is checked first, then its key, then the deals (contract §1). */
export const outcomeOf = ({ answered, deals }: World, sent: Sent): Refused | Replay | Done => {
  const fault = shapeFaults(sent)
  if (fault !== undefined) return fault
  const first = answered.get(sent.key)
  if (first !== undefined) {
    return first.request === contentOf(sent) ? first : { status: 409, code: "idempotency_key_reused" }
  }
  const { body } = sent.command
  const all = [...deals.values()]
  return sent.id === undefined ? create(body, all) : patch(deals.get(sent.id), body, all)
}

/** Returns the events that a change emits. */
export const emitted = ({
  after,
  before
}: Done): ReadonlyArray<{ readonly type: EventType; readonly more: object }> => {
  if (before === undefined) return [{ type: created, more: {} }]
  if (before === after) return []
  const { stageId: previousStageId } = before
  return [
    { type: updated, more: {} },
    ...(after.stageId === previousStageId ? [] : [{ type: stageChanged, more: { previousStageId } }])
  ]
}

/** Asserts that the record of a deal after a command is the model's, with times that fit the change. */
export const assertRecord = (record: DealShape, { after, before }: Done, last: DealShape | undefined) => {
  const { closedAt, createdAt, id: _, updatedAt, ...deal } = record
  assert.deepStrictEqual(deal, { ...after })
  if (before === undefined || last === undefined)
    return assert.deepStrictEqual([createdAt, closedAt], [updatedAt, null])
  if (before === after) return assert.deepStrictEqual(record, last)
  assert.strictEqual(createdAt, last.createdAt)
  assert.isTrue(updatedAt >= last.updatedAt)
  const closing = closed(after.status) && !closed(before.status)
  assert.strictEqual(closedAt, closing ? updatedAt : closed(after.status) ? last.closedAt : null)
}
