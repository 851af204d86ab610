/** The rules between the members of a deal and its references, as part of the statements that write it (contract §7). */
import { dealRules } from "../../api/crm/Deals.ts"
import { DealReferenceNotFound, ValidationFailed } from "../../api/Problems.ts"
import type { Refusal } from "../../commands/Command.ts"

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
