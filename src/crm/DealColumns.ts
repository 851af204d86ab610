/**
 * The columns of deals, grouped by what can set them, SQL for deals in events, and the rules between the members of a deal and its
 * references, as part of the statements that write it (contract §7).
 */
import { Struct } from "effect"
import { Deal, dealFields, dealRules } from "../api/crm/Deals.ts"
import { alteredObject, columnsOf, jsonObject } from "../sql/Columns.ts"
import { DealReferenceNotFound, ValidationFailed } from "../api/Problems.ts"
import type { Refusal } from "../commands/Command.ts"

export const columns = columnsOf(Deal.fields, { amountMinor: "bigint", expectedCloseDate: "date", version: "integer" })

export const writable = Struct.pick(columns, Struct.keys(dealFields))

/** The columns that a patch can alter, without `version` and `updatedAt`, which every change alters. */
const alterable = { ...writable, closedAt: columns.closedAt }

export const fileColumns = { ...writable, ...Struct.pick(columns, ["closedAt", "createdAt"]) }

/**
 * Returns SQL for the member `deal` of an event's data, as arguments of json_build_object. `row` is the name of a CTE with the
 * rows of deals.
 */
export const eventDeal = (row: string) => `'deal', ${jsonObject(columns, row)}`

/**
 * Returns SQL for the member `previous` of an event's data: the members that a change has altered, with their values before the
 * change.
 */
export const eventPrevious = (before: string, after: string) => `'previous', ${alteredObject(alterable, before, after)}`

/** SQL for the members of the deal that results from a command. */
interface Members {
  readonly amountMinor: string
  readonly currency: string
  readonly status: string
  readonly lostReason: string
}

/** Returns SQL expressions: for each rule the member that breaks it, or null. */
export const brokenRules = ({ amountMinor, currency, lostReason, status }: Members): string => `
  CASE
    WHEN ${amountMinor} IS NOT NULL AND ${currency} IS NULL THEN 'currency'
    WHEN ${amountMinor} IS NULL AND ${currency} IS NOT NULL THEN 'amountMinor'
  END,
  CASE WHEN ${status} <> 'lost' AND ${lostReason} IS NOT NULL THEN 'lostReason' END`

const rules: Readonly<Record<string, string>> = dealRules

export const validation_failed = ({ faults }: Refusal) =>
  new ValidationFailed({
    errors: Object.fromEntries(faults.map((member) => [`body/${member}`, [rules[member] ?? "is not allowed"]]))
  })

export const references = ["clientId", "organizationId", "responsibleMemberId"] as const

export const deal_reference_not_found = ({ faults }: Refusal) =>
  new DealReferenceNotFound({ detail: DealReferenceNotFound.detail(faults) })

export const pipelineExists = `EXISTS (
  SELECT FROM pipelines WHERE pipelines.project_id = next.project_id AND pipelines.id = next.pipeline_id
)`
