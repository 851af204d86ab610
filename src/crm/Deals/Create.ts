import { Struct } from "effect"
import type { SqlClient } from "effect/sql"
import type { DealPatch } from "../../api/crm/Deals.ts"
import type { DealId } from "../../api/schema/Ids.ts"
import type {
  DealReferenceNotFound,
  ExternalIdTaken,
  PreconditionFailed,
  ValidationFailed
} from "../../api/Problems.ts"
import { argumentsOf, insertedValues, insertList } from "../../sql/Columns.ts"
import type { Kind } from "../../commands/Kind.ts"
import { preconditionFailed } from "../../commands/Command.ts"
import { append, appendedInstallations, eventType } from "../../outbox/Outbox.ts"
import { missingReferences } from "../References.ts"
import { eventDeal, writable } from "../DealColumns.ts"
import { external_id_taken, holderOf, takenBy } from "../ExternalIds.ts"
import { brokenRules, deal_reference_not_found, pipelineExists, references, validation_failed } from "./Rules.ts"

/** A new deal. An upsert can set all members, and may lack the title. */
export interface NewDeal extends DealPatch {
  readonly id: DealId
  readonly traceparent: string
}

/** Columns that take the values of the command unchanged. The others have defaults. */
const given = Struct.omit(writable, ["pipelineId", "stageId", "status", "lifecycle"])

const holder = holderOf("deals", "next", `"externalId"`)

const createdData = `json_build_object(${eventDeal("created")})`

export type Problem = DealReferenceNotFound | ExternalIdTaken | PreconditionFailed | ValidationFailed

export const create = (sql: SqlClient.SqlClient): Kind<NewDeal, Problem> => ({
  args: {
    id: "text",
    traceparent: "text",
    ...argumentsOf(writable)
  },
  takes: ({ externalId }) => takenBy(externalId),
  decided: () => sql`
    next AS MATERIALIZED (
      SELECT command.*, "clientId" AS client_id, "organizationId" AS organization_id,
        "responsibleMemberId" AS responsible_member_id, given.pipeline_id, place.stage_id
      FROM command, LATERAL (SELECT coalesce("pipelineId", default_pipeline_id) AS pipeline_id) AS given
        LEFT JOIN LATERAL (
          SELECT stages.id AS stage_id FROM stages
          WHERE stages.project_id = command.project_id AND stages.pipeline_id = given.pipeline_id
            AND ("stageId" IS NULL OR stages.id = "stageId")
          ORDER BY stages.position LIMIT 1
        ) AS place ON true
    ),
    decided AS MATERIALIZED (
      SELECT next.*,
        CASE
          WHEN holder.id IS NULL AND "ifMatch" IS NOT NULL THEN 'precondition_failed'
          WHEN invalid <> '{}' THEN 'validation_failed'
          WHEN missing <> '{}' THEN 'deal_reference_not_found'
          WHEN holder.id IS NOT NULL THEN 'external_id_taken'
        END AS failure,
        CASE WHEN invalid <> '{}' THEN invalid WHEN missing <> '{}' THEN missing ELSE ARRAY[holder.id] END AS faults,
        next.id AS resource_id, true AS changed, CASE WHEN "ifMatch" IS NULL THEN 1 END AS version
      FROM next LEFT JOIN LATERAL (${sql.literal(holder)}) AS holder ON true, LATERAL (
        SELECT array_remove(ARRAY[
          CASE WHEN "title" IS NULL AND holder.id IS NULL THEN 'title' END,
          ${sql.literal(brokenRules({ amountMinor: `"amountMinor"`, currency: `"currency"`, status: `coalesce("status", 'open')`, lostReason: `"lostReason"` }))}
        ], NULL) AS invalid,
        array_remove(ARRAY[
          ${sql.literal(missingReferences("next", references))},
          CASE
            WHEN next.stage_id IS NOT NULL THEN NULL
            WHEN next.pipeline_id IS NULL THEN 'defaultPipeline'
            WHEN ${sql.literal(pipelineExists)} THEN 'stageId'
            ELSE 'pipelineId'
          END
        ], NULL) AS missing
        OFFSET 0
      ) AS reference
    )`,
  effect: () => sql`
    created AS (
      INSERT INTO deals (project_id, id, ${sql.literal(insertList(given))}, pipeline_id, stage_id, status, lifecycle,
                         closed_at, version, created_at, updated_at)
      SELECT project_id, id, ${sql.literal(insertedValues(given))}, pipeline_id, stage_id, coalesce("status", 'open'),
        coalesce("lifecycle", 'active'), CASE WHEN "status" <> 'open' THEN at END, 1, at, at
      FROM claim
      RETURNING *
    ),
    ${append(
      sql,
      sql`
        SELECT created.project_id, ${eventType(sql, "crm.deal.created.v1")}, ${sql.literal(createdData)}, created.created_at,
          claim.traceparent
        FROM created JOIN claim USING (project_id, id)`
    )}`,
  returning: ({ distinct }) => appendedInstallations(sql, sql`decided.project_id`, distinct),
  problems: {
    ...preconditionFailed,
    deal_reference_not_found,
    validation_failed,
    external_id_taken: external_id_taken("deal")
  }
})
