/** The creation of deals. */
import type { SqlClient } from "effect/sql"
import type { DealCreate } from "../../api/crm/Deals.ts"
import type { DealId } from "../../api/Ids.ts"
import type { DealReferenceNotFound } from "../../api/Problems.ts"
import type { Kind } from "../../platform/idempotency/Grouped.ts"
import { append, appended } from "../../platform/outbox/Outbox.ts"
import { dangling } from "../References.ts"
import { eventDeal } from "./Record.ts"
import { deal_reference_not_found, pipelineExists, references } from "./References.ts"

export interface NewDeal extends DealCreate {
  readonly id: DealId
  readonly traceparent: string
}

const createdData = `json_build_object(${eventDeal("created")})`

/** A deal is on the project's default pipeline, and on the pipeline's first stage, unless the command names others. */
export const create = (sql: SqlClient.SqlClient): Kind<NewDeal, DealReferenceNotFound> => ({
  args: {
    id: "text",
    traceparent: "text",
    title: "text",
    clientId: "text",
    organizationId: "text",
    pipelineId: "text",
    stageId: "text",
    amountMinor: "bigint",
    currency: "text",
    expectedCloseDate: "date",
    responsibleMemberId: "text"
  },
  verdict: () => sql`
    next AS MATERIALIZED (
      SELECT ord, project_id, id, at, title, "clientId" AS client_id, "organizationId" AS organization_id,
        given.pipeline_id, place.stage_id, "amountMinor" AS amount_minor, currency,
        "expectedCloseDate" AS expected_close_date, "responsibleMemberId" AS responsible_member_id
      FROM command, LATERAL (SELECT coalesce("pipelineId", default_pipeline_id) AS pipeline_id) AS given
        LEFT JOIN LATERAL (
          SELECT stages.id AS stage_id FROM stages
          WHERE stages.project_id = command.project_id AND stages.pipeline_id = given.pipeline_id
            AND ("stageId" IS NULL OR stages.id = "stageId")
          ORDER BY stages.position LIMIT 1
        ) AS place ON true
    ),
    verdict AS (
      SELECT ord, 'deal_reference_not_found' || nullif(concat(
          ${dangling(sql, "next", references)},
          CASE
            WHEN next.stage_id IS NOT NULL THEN ''
            WHEN next.pipeline_id IS NULL THEN ' defaultPipeline'
            WHEN ${pipelineExists(sql)} THEN ' stageId'
            ELSE ' pipelineId'
          END
        ), '') AS failure,
        id AS resource_id, true AS changed, 1 AS version
      FROM next
    )`,
  effect: sql`
    created AS (
      INSERT INTO deals (project_id, id, title, client_id, organization_id, pipeline_id, stage_id, status, lifecycle,
                         amount_minor, currency, expected_close_date, responsible_member_id,
                         version, created_at, updated_at)
      SELECT project_id, id, title, client_id, organization_id, pipeline_id, stage_id, 'open', 'active',
             amount_minor, currency, expected_close_date, responsible_member_id, 1, at, at
      FROM claim JOIN next USING (ord)
      RETURNING *
    ),
    ${append(
      sql,
      sql`
        SELECT created.project_id, 'crm.deal.created.v1', ${sql.literal(createdData)}, created.created_at, traceparent
        FROM created JOIN command ON command.project_id = created.project_id AND command.id = created.id`
    )}`,
  returning: appended(sql, sql`command.project_id`),
  problems: { deal_reference_not_found }
})
