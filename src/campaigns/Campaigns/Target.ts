/** The locked campaign of a command, and the guards that all commands share. */
import type { SqlClient, Statement } from "effect/sql"
import { detailOf, details, missingOfCampaign } from "../../api/Details.ts"
import { campaigns, type Operation } from "../../api/campaigns/States.ts"
import type { CampaignId, ProjectId } from "../../api/schema/Ids.ts"
import {
  CampaignNotFound,
  CampaignReferenceNotFound,
  CampaignStateConflict,
  VersionConflict
} from "../../api/Problems.ts"
import { startsOf } from "../../api/schema/States.ts"
import type { Refusal } from "../../platform/mutations/Idempotency.ts"

type Sql = SqlClient.SqlClient

/**
 * Locks the campaign; has no row if it does not exist. Concurrent commands run one after the other, and each sees the
 * changes of the previous command.
 */
export const target = (sql: Sql, id: CampaignId): Statement.Fragment => sql`
  target AS MATERIALIZED (
    SELECT campaign.* FROM project, LATERAL (
      SELECT * FROM campaigns WHERE project_id = project.project_id AND id = ${id} FOR UPDATE
    ) campaign
  )`

/** Returns SQL of the state to which an operation moves the campaign; NULL if the operation is not allowed. */
export const stateAfter = (operation: Operation): string =>
  `CASE target.status ${startsOf(campaigns, operation)
    .map((status) => {
      const to = campaigns.moves[operation][status]
      return `WHEN '${status}' THEN ${to === "where it was" ? "target.paused_from" : `'${to}'`}`
    })
    .join(" ")} END`

/** The guards of a command, in SQL over `project`, `target`, `frozen` (the campaign's audience) and the joins in `from`. */
interface Guards {
  /** `WHEN … THEN …` for each conflict other than the conflict of the state, in the order in which they are reported. */
  readonly conflicts?: Statement.Fragment
  readonly changed: Statement.Fragment
  /** The campaign's version after the command. */
  readonly version: Statement.Fragment
  readonly from?: Statement.Fragment
  /** The id of the receipt, if it is not the campaign's. */
  readonly resourceId?: CampaignId
}

/**
 * Builds the `verdict` of a mutation: the campaign exists, its state allows the operation, and there is no other
 * conflict.
 */
export const verdict = (
  sql: Sql,
  projectId: ProjectId,
  id: CampaignId,
  operation: Operation,
  { changed, conflicts, from, resourceId, version }: Guards
): Statement.Fragment => sql`
  checked AS (
    SELECT
      CASE
        WHEN target.id IS NULL THEN 'campaign_not_found'
        WHEN ${sql.literal(stateAfter(operation))} IS NULL THEN 'campaign_state_conflict ' || target.status
        ${conflicts ?? sql.literal("")}
      END AS failure,
      ${changed} AS changed, target.version AS current_version, ${version} AS next_version
    FROM project LEFT JOIN target ON true
      LEFT JOIN audiences AS frozen ON frozen.project_id = ${projectId} AND frozen.id = target.audience_id
      ${from ?? sql.literal("")}
    -- A command that has waited for a freeze reads the new campaign, but its snapshot lacks the new audience. It returns no
    -- row, and is retried.
    WHERE target.audience_id IS NULL OR frozen.id IS NOT NULL
  ),
  verdict AS (
    SELECT failure, ${resourceId ?? id}::text AS resource_id, changed,
      CASE WHEN failure IS NULL THEN next_version ELSE current_version END AS version
    FROM checked
  )`

export const versionGuard = (sql: Sql, expectedVersion: number) => sql`
  WHEN target.version <> ${expectedVersion}::bigint THEN 'version_conflict'`

export const campaign_not_found = () => new CampaignNotFound({ detail: details.campaign_not_found })

/** Returns the problem of a campaign in the wrong state (then the fault is the state), or of a revoked channel. */
export const campaign_state_conflict =
  (operation: Operation) =>
  ({ faults: [fault = ""] }: Refusal) =>
    new CampaignStateConflict({
      detail:
        fault === "channel"
          ? "The channel in channelId is revoked."
          : detailOf.campaign_state_conflict(fault, operation, startsOf(campaigns, operation))
    })

export const version_conflict = ({ version }: Refusal) =>
  new VersionConflict({
    detail: detailOf.version_conflict("campaign", version),
    currentVersion: version
  })

const missingDetails: Readonly<Record<string, string>> = missingOfCampaign

export const campaign_reference_not_found = ({ faults }: Refusal) =>
  new CampaignReferenceNotFound({ detail: faults.map((fault) => missingDetails[fault] ?? fault).join(" ") })
