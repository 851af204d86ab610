/** The SQL of deals. Every statement names the project first. */
import type { SqlClient, Statement } from "effect/sql"
import {
  type Deal,
  type DealCreate,
  type DealLifecycleFilter,
  dealMoves,
  type DealPatch,
  dealRules,
  type DealStatusFilter
} from "../../api/crm/Deals.ts"
import type { DealId, ProjectId } from "../../api/Ids.ts"
import { DealNotFound, DealReferenceNotFound, DealStatusInvalid, ValidationFailed } from "../../api/Problems.ts"
import { assigned, differ, jsonObject, patched, selected } from "../../platform/Columns.ts"
import type { Mutation, Refusal } from "../../platform/idempotency/Idempotency.ts"
import { append, appended, type Cause } from "../../platform/outbox/Outbox.ts"
import { lookup } from "../../platform/Lookups.ts"
import { following, type Window } from "../../platform/Pages.ts"
import { client, dangling, organization, responsibleMember } from "../References.ts"

type Sql = SqlClient.SqlClient

const writable = {
  title: "title",
  clientId: "client_id",
  organizationId: "organization_id",
  pipelineId: "pipeline_id",
  stageId: "stage_id",
  status: "status",
  lifecycle: "lifecycle",
  amountMinor: ["amount_minor", "bigint"],
  currency: "currency",
  expectedCloseDate: ["expected_close_date", "date"],
  responsibleMemberId: "responsible_member_id",
  lostReason: "lost_reason"
} as const

/** A patch sets these as it says; the other two follow from the record. */
const { lostReason: _, stageId: __, ...patchable } = writable

const columns = {
  id: "id",
  ...writable,
  closedAt: ["closed_at", "timestamptz"],
  version: ["version", "integer"],
  createdAt: ["created_at", "timestamptz"],
  updatedAt: ["updated_at", "timestamptz"]
} as const

const record = selected(columns)
const patchedValues = patched(patchable)
const differs = differ(writable, "next", "target")
const assignments = assigned(writable, "next")

/** The `data` of the deal events, of the rows that a create and a patch leave. */
const createdData = `json_build_object('deal', ${jsonObject(columns, "created")})`
const updatedDeal = `'deal', ${jsonObject(columns, "updated")}`

/** The look-up of a deal. */
export const find = (sql: Sql) => lookup<Deal>(sql, "deals", columns)

export const list = (
  sql: Sql,
  projectId: ProjectId,
  lifecycle: DealLifecycleFilter,
  status: DealStatusFilter,
  { after, limit }: Window
) => {
  const ofOne = (lifecycle: Exclude<DealLifecycleFilter, "all">) => sql`
    (SELECT * FROM deals
     WHERE project_id = ${projectId} AND lifecycle = ${lifecycle}
       ${status === "all" ? sql.literal("") : sql`AND status = ${status}`}
       ${following(sql, "deals", projectId, after)}
     ORDER BY created_at DESC, id DESC
     LIMIT ${limit})`
  return sql<Deal>`
    SELECT ${sql.literal(record)}
    FROM ${lifecycle === "all" ? sql`(${ofOne("active")} UNION ALL ${ofOne("archived")})` : ofOne(lifecycle)} AS deal
    ORDER BY deal.created_at DESC, deal.id DESC
    LIMIT ${limit}`
}

export const noSuchDeal = "The path names no deal of this project."

/** What a deal refers to, by the word for its fault. */
const noSuchReference: Readonly<Record<string, string>> = {
  clientId: "clientId names no client of the project.",
  organizationId: "organizationId names no organization of the project.",
  responsibleMemberId: "responsibleMemberId names no member of the project.",
  pipelineId: "pipelineId names no pipeline of the project.",
  defaultPipeline: "The project has no default pipeline: name a pipelineId.",
  stageId: "stageId names no stage of the pipeline."
}

const references = [client, organization, responsibleMember]

const deal_reference_not_found = ({ faults }: Refusal) =>
  new DealReferenceNotFound({ detail: faults.map((fault) => noSuchReference[fault] ?? fault).join(" ") })

/** Whether a project has a pipeline. */
const pipelineExists = (sql: Sql, projectId: ProjectId, id: Statement.Fragment) =>
  sql`EXISTS (SELECT FROM pipelines WHERE project_id = ${projectId} AND id = ${id})`

export const create = (sql: Sql, cause: Cause, id: DealId, deal: DealCreate): Mutation<DealReferenceNotFound> => {
  const { at, projectId } = cause
  return {
    at,
    verdict: sql`
      given AS (
        SELECT * FROM jsonb_to_record(${JSON.stringify(deal)}::jsonb) AS given (
          "title" text, "clientId" text, "organizationId" text, "pipelineId" text, "stageId" text,
          "amountMinor" bigint, "currency" text, "expectedCloseDate" date, "responsibleMemberId" text
        )
      ),
      next AS MATERIALIZED (
        SELECT "title" AS title, "clientId" AS client_id, "organizationId" AS organization_id,
          coalesce("pipelineId", project.default_pipeline_id) AS pipeline_id, "stageId" AS given_stage_id,
          "amountMinor" AS amount_minor, "currency" AS currency, "expectedCloseDate" AS expected_close_date,
          "responsibleMemberId" AS responsible_member_id
        FROM project, given
      ),
      place AS MATERIALIZED (
        SELECT stages.id AS stage_id FROM next JOIN stages
          ON stages.project_id = ${projectId} AND stages.pipeline_id = next.pipeline_id
            AND (given_stage_id IS NULL OR stages.id = given_stage_id)
        ORDER BY stages.position LIMIT 1
      ),
      dangling AS (
        SELECT concat(
          ${dangling(sql, projectId, "next", references)},
          CASE
            WHEN place.stage_id IS NOT NULL THEN ''
            WHEN next.pipeline_id IS NULL THEN ' defaultPipeline'
            WHEN ${pipelineExists(sql, projectId, sql`next.pipeline_id`)} THEN ' stageId'
            ELSE ' pipelineId'
          END
        ) AS members
        FROM next LEFT JOIN place ON true
      ),
      verdict AS (
        SELECT CASE WHEN members <> '' THEN 'deal_reference_not_found' || members END AS failure,
               ${id}::text AS resource_id, true AS changed, 1 AS version
        FROM dangling
      )`,
    effect: sql`
      created AS (
        INSERT INTO deals (project_id, id, title, client_id, organization_id, pipeline_id, stage_id, status, lifecycle,
                           amount_minor, currency, expected_close_date, responsible_member_id,
                           version, created_at, updated_at)
        SELECT ${projectId}::text, ${id}::text, title, client_id, organization_id, pipeline_id, stage_id,
               'open', 'active', amount_minor, currency, expected_close_date, responsible_member_id,
               1, ${at}::timestamptz, ${at}::timestamptz
        FROM claim, next, place
        RETURNING *
      ),
      ${append(sql, cause, sql`SELECT 'crm.deal.created.v1', ${sql.literal(createdData)}, created_at FROM created`)}`,
    returning: appended(sql),
    problems: { deal_reference_not_found }
  }
}

/** The moves of `status` as pairs for an IN. */
const statusMoves = Object.entries(dealMoves.status)
  .flatMap(([from, targets]) => targets.map((to) => `('${from}', '${to}')`))
  .join(", ")

type PatchProblem = DealNotFound | DealReferenceNotFound | DealStatusInvalid | ValidationFailed

export const patch = (sql: Sql, cause: Cause, id: DealId, changes: DealPatch): Mutation<PatchProblem> => {
  const { at, projectId } = cause
  return {
    at,
    verdict: sql`
      patch AS (SELECT ${JSON.stringify(changes)}::jsonb AS p),
      target AS MATERIALIZED (
        SELECT deal.* FROM project, LATERAL (
          SELECT * FROM deals WHERE project_id = project.project_id AND id = ${id} FOR NO KEY UPDATE
        ) deal
      ),
      next AS MATERIALIZED (
        SELECT ${sql.literal(patchedValues)},
          CASE
            WHEN p ? 'stageId' THEN p->>'stageId'
            WHEN p->>'pipelineId' <> pipeline_id THEN (
              SELECT stages.id FROM stages
              WHERE stages.project_id = ${projectId} AND stages.pipeline_id = p->>'pipelineId'
              ORDER BY stages.position LIMIT 1
            )
            ELSE stage_id
          END AS stage_id,
          CASE
            WHEN p ? 'lostReason' THEN p->>'lostReason'
            WHEN coalesce(p->>'status', status) = 'lost' THEN lost_reason
          END AS lost_reason
        FROM target, patch
      ),
      given AS (
        SELECT p->>'clientId' AS client_id, p->>'organizationId' AS organization_id,
          p->>'responsibleMemberId' AS responsible_member_id
        FROM patch
      ),
      judged AS (
        SELECT
          ${sql.literal(differs)} AS changed,
          concat(
            CASE
              WHEN next.amount_minor IS NOT NULL AND next.currency IS NULL THEN ' currency'
              WHEN next.amount_minor IS NULL AND next.currency IS NOT NULL THEN ' amountMinor'
            END,
            CASE WHEN next.status <> 'lost' AND next.lost_reason IS NOT NULL THEN ' lostReason' END
          ) AS invalid,
          concat(
            ${dangling(sql, projectId, "given", references)},
            CASE
              WHEN EXISTS (
                SELECT FROM stages
                WHERE project_id = ${projectId} AND pipeline_id = next.pipeline_id AND id = next.stage_id
              ) THEN ''
              WHEN ${pipelineExists(sql, projectId, sql`next.pipeline_id`)} THEN ' stageId'
              ELSE ' pipelineId'
            END
          ) AS dangling,
          next.status <> target.status
            AND (target.status, next.status) NOT IN (${sql.literal(statusMoves)}) AS immovable
        FROM target, next, given
      ),
      verdict AS (
        SELECT
          CASE
            WHEN target.id IS NULL THEN 'deal_not_found'
            WHEN invalid <> '' THEN 'validation_failed' || invalid
            WHEN immovable THEN 'deal_status_invalid'
            WHEN dangling <> '' THEN 'deal_reference_not_found' || dangling
          END AS failure,
          ${id}::text AS resource_id, changed, target.version + changed::int AS version
        FROM patch LEFT JOIN target ON true LEFT JOIN judged ON true
      )`,
    effect: sql`
      updated AS (
        UPDATE deals SET
          ${sql.literal(assignments)},
          closed_at = CASE
            WHEN next.status = 'open' THEN NULL
            WHEN deals.status = 'open' THEN greatest(deals.updated_at, ${at}::timestamptz)
            ELSE deals.closed_at
          END,
          version = deals.version + 1, updated_at = greatest(deals.updated_at, ${at}::timestamptz)
        FROM claim, next
        WHERE deals.project_id = ${projectId} AND deals.id = ${id} AND claim.changed
        RETURNING deals.*
      ),
      ${append(
        sql,
        cause,
        sql`
          SELECT 'crm.deal.updated.v1', json_build_object(${sql.literal(updatedDeal)}), updated_at FROM updated
          UNION ALL
          SELECT 'crm.deal.stage_changed.v1',
            json_build_object(${sql.literal(updatedDeal)}, 'previousStageId', target.stage_id), updated.updated_at
          FROM updated, target WHERE updated.stage_id <> target.stage_id`
      )}`,
    returning: appended(sql),
    problems: {
      deal_not_found: () => new DealNotFound({ detail: noSuchDeal }),
      validation_failed: ({ faults }) => invalid(faults),
      deal_status_invalid: () =>
        new DealStatusInvalid({ detail: "Between won and lost a deal has to be opened again first." }),
      deal_reference_not_found
    }
  }
}

const rules: Readonly<Record<string, string>> = dealRules

const invalid = (members: ReadonlyArray<string>) =>
  new ValidationFailed({
    errors: Object.fromEntries(members.map((member) => [`body/${member}`, [rules[member] ?? "is not allowed"]]))
  })
