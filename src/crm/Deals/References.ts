/** References of deals to other records. */
import type { SqlClient } from "effect/sql"
import { missingOfDeal } from "../../api/Details.ts"
import { DealReferenceNotFound } from "../../api/Problems.ts"
import type { Refusal } from "../../platform/mutations/Idempotency.ts"
import { client, organization, responsibleMember } from "../References.ts"

export const references = [client, organization, responsibleMember]

/** The details, by the word that stands for the missing reference in `failure`. */
const texts: Readonly<Record<string, string>> = missingOfDeal

export const deal_reference_not_found = ({ faults }: Refusal) =>
  new DealReferenceNotFound({ detail: faults.map((fault) => texts[fault] ?? fault).join(" ") })

export const pipelineExists = (sql: SqlClient.SqlClient) => sql`
  EXISTS (SELECT FROM pipelines WHERE pipelines.project_id = next.project_id AND pipelines.id = next.pipeline_id)`
