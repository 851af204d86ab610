/** The references of a deal, and the problem that names the missing ones. */
import { DealReferenceNotFound } from "../../api/Problems.ts"
import type { Refusal } from "../../platform/mutations/Idempotency.ts"

export const references = ["clientId", "organizationId", "responsibleMemberId"] as const

/** The texts of the problem's detail, by the name of the missing reference. */
const texts: Readonly<Record<string, string>> = DealReferenceNotFound.detail

export const deal_reference_not_found = ({ faults }: Refusal) =>
  new DealReferenceNotFound({ detail: faults.map((fault) => texts[fault] ?? fault).join(" ") })

export const pipelineExists = `EXISTS (
  SELECT FROM pipelines WHERE pipelines.project_id = next.project_id AND pipelines.id = next.pipeline_id
)`
