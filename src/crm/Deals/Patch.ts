import type { SqlClient } from "effect/sql"
import { type DealPatch, dealStatuses } from "../../api/crm/Deals.ts"
import type { DealId } from "../../api/schema/Ids.ts"
import {
  DealNotFound,
  type DealReferenceNotFound,
  DealStatusInvalid,
  type ExternalIdTaken,
  type PreconditionFailed,
  type ValidationFailed
} from "../../api/Problems.ts"
import { targetsOf } from "../../api/schema/States.ts"
import { assignmentList, differ, patchList, qualifiedList } from "../../sql/Columns.ts"
import type { Form, Kind } from "../../commands/Kind.ts"
import { plain, preconditionFailed } from "../../commands/Command.ts"
import { eventsOf } from "../../outbox/Outbox.ts"
import {
  type Expected,
  expectedArgs,
  external_id_taken,
  holderOf,
  missingReferences,
  type OtherRecord,
  otherRecord,
  otherRecordProblem,
  takenBy
} from "../References.ts"
import {
  brokenRules,
  deal_reference_not_found,
  eventDeal,
  eventPrevious,
  pipelineExists,
  references,
  validation_failed,
  writable
} from "../DealColumns.ts"

/** Columns that take the values of the patch. `lostReason` and `stageId` also depend on the record, so they are left out. */
const { lostReason: _, stageId: __, ...patchable } = writable

const patchedValues = patchList(patchable)
const differs = differ(writable, "next", "target")
const assignments = assignmentList(writable, "applied")
const nextValues = qualifiedList(writable, "checked")

/** The column `before` of `updated` is the whole row before the change. */
const previous = eventPrevious("(updated.before)", "updated")

/** The allowed changes of `status`, as pairs (from, to) for an SQL IN. */
const statusMoves = dealStatuses.states
  .flatMap((from) => targetsOf(dealStatuses, from).map((to) => `('${from}', '${to}')`))
  .join(", ")

const holder = holderOf("deals", "checked", "checked.wanted_external_id")

export interface DealChange extends Expected {
  readonly id: DealId
  readonly traceparent: string
  readonly p: DealPatch
}

export type Problem =
  | DealNotFound
  | DealReferenceNotFound
  | DealStatusInvalid
  | ExternalIdTaken
  | PreconditionFailed
  | OtherRecord
  | ValidationFailed

export const patch = (sql: SqlClient.SqlClient): Kind<DealChange, Problem> => ({
  args: { id: "text", traceparent: "text", p: "jsonb", ...expectedArgs },
  takes: ({ id, p }) => [id, ...takenBy(p.externalId)],
  decided: (form) => sql`
    ${next(sql, form)},
    ${checkedDeals(sql)},
    decided AS MATERIALIZED (
      SELECT command.*, ${sql.literal(nextValues)}, before,
        CASE
          WHEN checked.ord IS NULL THEN ${form.absent(sql`SELECT FROM deals WHERE project_id = command.project_id AND id = command.id`, "deal_not_found")}
          WHEN NOT ${form.holds} THEN 'precondition_failed'
          ${sql.literal(otherRecord("checked"))}
          WHEN invalid <> '{}' THEN 'validation_failed'
          WHEN immovable THEN 'deal_status_invalid'
          WHEN missing_references <> '{}' THEN 'deal_reference_not_found'
          WHEN holder.id <> command.id THEN 'external_id_taken'
        END AS failure,
        CASE
          WHEN invalid <> '{}' THEN invalid
          WHEN missing_references <> '{}' THEN missing_references
          ELSE ARRAY[holder.id]
        END AS faults,
        command.id AS resource_id, differs AS changed, old_version + (differs AND ${form.holds} IS NOT FALSE)::int AS version
      FROM command
        LEFT JOIN checked ON checked.ord = command.ord
        LEFT JOIN LATERAL (${sql.literal(holder)}) AS holder ON true
    )`,
  effect: () => sql`
    updated AS (
      UPDATE deals SET
        ${sql.literal(assignments)},
        closed_at = CASE
          WHEN applied.status = 'open' THEN NULL
          WHEN deals.status = 'open' THEN greatest(deals.updated_at, applied.at)
          ELSE deals.closed_at
        END,
        version = deals.version + 1, updated_at = greatest(deals.updated_at, applied.at)
      FROM applied
      WHERE deals.project_id = applied.project_id AND deals.id = applied.id AND applied.changed
      RETURNING deals.*, applied.traceparent, applied.before
    )`,
  events: eventsOf(sql, {
    "crm.deal.updated.v1": (type) => sql`
      SELECT project_id, ${type}, json_build_object(${sql.literal(eventDeal("updated"))}, ${sql.literal(previous)}), updated_at,
        traceparent
      FROM updated`,
    "crm.deal.stage_changed.v1": (type) => sql`
      SELECT project_id, ${type}, json_build_object(${sql.literal(eventDeal("updated"))}, 'previousStageId',
        (before).stage_id, ${sql.literal(previous)}), updated_at, traceparent
      FROM updated WHERE stage_id <> (before).stage_id`
  }),
  problems: {
    ...preconditionFailed,
    ...plain(DealNotFound, DealStatusInvalid),
    validation_failed,
    ...otherRecordProblem,
    deal_reference_not_found,
    external_id_taken: external_id_taken("deal")
  }
})

/** Locks the deals, and computes their rows after the patches. */
const next = (sql: SqlClient.SqlClient, { inOrder, locked }: Form) => sql`
  next AS MATERIALIZED (
    SELECT command.ord, command.project_id, command.p, target.status AS old_status, target.version AS old_version,
      before, next.*, ${sql.literal(differs)} AS differs, p->>'externalId' AS wanted_external_id,
      target.external_id AS old_external_id
    FROM ${inOrder}, LATERAL (
      SELECT deals AS before, deals.* FROM deals WHERE project_id = command.project_id AND id = command.id
      FOR NO KEY UPDATE ${locked}
    ) AS target, LATERAL (
      SELECT ${sql.literal(patchedValues)},
        CASE
          WHEN p ? 'stageId' THEN p->>'stageId'
          WHEN p->>'pipelineId' <> pipeline_id THEN (
            SELECT stages.id FROM stages
            WHERE stages.project_id = target.project_id AND stages.pipeline_id = p->>'pipelineId'
            ORDER BY stages.position LIMIT 1
          )
          ELSE stage_id
        END AS stage_id,
        CASE
          WHEN p ? 'lostReason' THEN p->>'lostReason'
          WHEN coalesce(p->>'status', status) = 'lost' THEN lost_reason
        END AS lost_reason
    ) AS next
  )`

/** Checks the rows of `next`: the rules between fields, the references, and the change of the status. */
const checkedDeals = (sql: SqlClient.SqlClient) => sql`
  checked AS (
    SELECT
      next.*,
      array_remove(ARRAY[
        ${sql.literal(brokenRules({ amountMinor: "next.amount_minor", currency: "next.currency", status: "next.status", lostReason: "next.lost_reason" }))}
      ], NULL) AS invalid,
      array_remove(ARRAY[
        ${sql.literal(missingReferences("given", references))},
        CASE
          WHEN EXISTS (
            SELECT FROM stages
            WHERE stages.project_id = next.project_id AND stages.pipeline_id = next.pipeline_id
              AND stages.id = next.stage_id
          ) THEN NULL
          WHEN ${sql.literal(pipelineExists)} THEN 'stageId'
          ELSE 'pipelineId'
        END
      ], NULL) AS missing_references,
      next.status <> old_status AND (old_status, next.status) NOT IN (${sql.literal(statusMoves)}) AS immovable
    FROM next, LATERAL (
      SELECT next.project_id, p->>'clientId' AS client_id, p->>'organizationId' AS organization_id,
        p->>'responsibleMemberId' AS responsible_member_id
    ) AS given
  )`
