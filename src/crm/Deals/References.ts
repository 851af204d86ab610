/** References of deals to other records. */
import type { SqlClient } from "effect/sql"
import { DealReferenceNotFound } from "../../api/Problems.ts"
import type { Refusal } from "../../platform/idempotency/Idempotency.ts"
import { client, organization, responsibleMember } from "../References.ts"

export const references = [client, organization, responsibleMember]

/** The detail of each missing reference, by its name in a failure. */
const missingDetails: Readonly<Record<string, string>> = {
  clientId: "clientId names no client of the project.",
  organizationId: "organizationId names no organization of the project.",
  responsibleMemberId: "responsibleMemberId names no member of the project.",
  pipelineId: "pipelineId names no pipeline of the project.",
  defaultPipeline: "The project has no default pipeline: name a pipelineId.",
  stageId: "stageId names no stage of the pipeline."
}

export const deal_reference_not_found = ({ faults }: Refusal) =>
  new DealReferenceNotFound({ detail: faults.map((fault) => missingDetails[fault] ?? fault).join(" ") })

/** Whether the pipeline of the row `next` exists in its project. */
export const pipelineExists = (sql: SqlClient.SqlClient) => sql`
  EXISTS (SELECT FROM pipelines WHERE pipelines.project_id = next.project_id AND pipelines.id = next.pipeline_id)`
