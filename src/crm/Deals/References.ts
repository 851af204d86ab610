/** The references of a deal, and the problem that names the missing ones. */
import { DealReferenceNotFound } from "../../api/Problems.ts"
import type { Refusal } from "../../commands/Idempotency.ts"

export const references = ["clientId", "organizationId", "responsibleMemberId"] as const

export const deal_reference_not_found = ({ faults }: Refusal) =>
  new DealReferenceNotFound({ detail: DealReferenceNotFound.detail(faults) })

export const pipelineExists = `EXISTS (
  SELECT FROM pipelines WHERE pipelines.project_id = next.project_id AND pipelines.id = next.pipeline_id
)`
