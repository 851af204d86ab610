/** References of deals to other records. */
import type { SqlClient } from "effect/sql"
import { DealReferenceNotFound } from "../../api/Problems.ts"
import type { Refusal } from "../../platform/mutations/Idempotency.ts"
import { client, organization, responsibleMember } from "../References.ts"

export const references = [client, organization, responsibleMember]

/** The detail for each missing reference, by the word that stands for the reference in `failure`. */
const missingDetails: Readonly<Record<string, string>> = {
  clientId: "The project has no client with the id in clientId: GET …/crm/clients lists its clients.",
  organizationId: "The project has no organization with the id in organizationId.",
  responsibleMemberId: "The project has no member with the id in responsibleMemberId.",
  pipelineId: "The project has no pipeline with the id in pipelineId: GET …/crm/pipelines lists its pipelines.",
  defaultPipeline: "The project has no default pipeline: send a pipelineId.",
  stageId: "The pipeline has no stage with the id in stageId: GET …/crm/pipelines lists its stages."
}

export const deal_reference_not_found = ({ faults }: Refusal) =>
  new DealReferenceNotFound({ detail: faults.map((fault) => missingDetails[fault] ?? fault).join(" ") })

export const pipelineExists = (sql: SqlClient.SqlClient) => sql`
  EXISTS (SELECT FROM pipelines WHERE pipelines.project_id = next.project_id AND pipelines.id = next.pipeline_id)`
