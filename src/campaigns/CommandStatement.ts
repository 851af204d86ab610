/**
 * What all commands on a campaign share: the lock of the campaign, the order of the guards, and the problems; and the commands that
 * create, duplicate and delete one.
 */
import type { Statement } from "effect/sql"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import { allCommands, type CommandOf } from "../api/campaigns/Commands.ts"
import type { CampaignId, ProjectId } from "../api/schema/Ids.ts"
import {
  CampaignNotFound,
  CampaignNotReady,
  CampaignReferenceNotFound,
  CampaignStateConflict,
  missingParts,
  type PreconditionFailed,
  ScheduleInvalid,
  VersionConflict
} from "../api/Problems.ts"
import { startsOf } from "../api/schema/States.ts"
import { matches, type Mutation, plain, preconditionFailed, type Problems } from "../commands/Command.ts"
import type { Kind } from "../commands/Kind.ts"

/** A command of a caller or of an operator. */
type AnyCommand = keyof typeof allCommands.moves

export type Conflict =
  | CampaignNotFound
  | CampaignReferenceNotFound
  | CampaignStateConflict
  | CampaignNotReady
  | PreconditionFailed
  | VersionConflict
  | ScheduleInvalid

/** The maximum of candidates of an audience: as many as one statement freezes in its time. */
export const maxCandidates = 500_000

const problemsOf = (operation: AnyCommand): Problems<Conflict> => ({
  ...preconditionFailed,
  ...plain(CampaignNotFound),
  // The fault is the campaign's state, `channel` if the channel is revoked, or `candidates` if there are too many.
  campaign_state_conflict: ({ faults: [fault = ""] }) =>
    new CampaignStateConflict({
      detail:
        fault === "channel"
          ? "The channel in channelId is revoked."
          : fault === "candidates"
            ? `There are more than ${maxCandidates} candidates. Choose a segment with fewer clients.`
            : CampaignStateConflict.detail(fault, operation, startsOf(allCommands, operation))
    }),
  version_conflict: ({ version }) =>
    new VersionConflict({ detail: VersionConflict.detail("campaign", version), currentVersion: version }),
  campaign_reference_not_found: ({ faults }) =>
    new CampaignReferenceNotFound({ detail: CampaignReferenceNotFound.detail(faults) }),
  schedule_invalid: ({ faults: [detail = ""] }) => new ScheduleInvalid({ detail }),
  campaign_not_ready: ({ faults }) =>
    new CampaignNotReady({
      detail: CampaignNotReady.detail(faults),
      missing: missingParts.filter((part) => faults.includes(part))
    })
})

/** Returns SQL for the state of the campaign after an operation; NULL if the operation is not allowed. */
export const campaignStateAfter = (operation: AnyCommand): string =>
  `CASE target.status ${startsOf(allCommands, operation)
    .map((status) => {
      const to = allCommands.moves[operation][status]
      return `WHEN '${status}' THEN ${to === "where it was" ? "target.paused_from" : `'${to}'`}`
    })
    .join(" ")} END`

export const versionGuard = (sql: Sql, expectedVersion: number) => sql`
  WHEN target.version <> ${expectedVersion}::bigint THEN ARRAY['version_conflict']`

/** The SQL of a command. It can use the rows `command`, `target` (the campaign) and `frozen` (its audience), and what `from` joins. */
interface CommandSql {
  /** Common table expressions that `from` joins, each followed by a comma. */
  readonly before?: Statement.Fragment
  readonly from?: Statement.Fragment
  /**
   * A `WHEN … THEN ARRAY[code, …faults]` for each conflict, in the order of their priority. The conflict of the state comes before
   * all of them.
   */
  readonly conflicts?: Statement.Fragment
  readonly changed: Statement.Fragment
  /** The campaign's version after the command. */
  readonly version: Statement.Fragment
  /** The id in the receipt. Default: the campaign's id. */
  readonly resourceId?: CampaignId
  readonly effect: Statement.Fragment
}

/**
 * Makes the mutation of a command. The guards are: the campaign exists, its state allows the operation, and there is no other
 * conflict. `target` has no row if the campaign does not exist. Otherwise it locks the campaign, so that concurrent commands run
 * one after the other, and each sees the changes of the previous command.
 */
export const commandOn = (
  sql: Sql,
  projectId: ProjectId,
  id: CampaignId,
  operation: AnyCommand,
  at: Date,
  { before, changed, conflicts, effect, from, resourceId, version }: CommandSql
): Mutation<Conflict> => ({
  at,
  decided: sql`
    target AS MATERIALIZED (
      SELECT campaign.* FROM command, LATERAL (
        SELECT * FROM campaigns WHERE project_id = command.project_id AND id = ${id} FOR UPDATE
      ) campaign
    ),
    ${before ?? sql.literal("")}
    checked AS (
      SELECT
        CASE
          WHEN target.id IS NULL THEN ARRAY['campaign_not_found']
          WHEN NOT ${sql.literal(matches("target.version"))} THEN ARRAY['precondition_failed']
          WHEN ${sql.literal(campaignStateAfter(operation))} IS NULL THEN ARRAY['campaign_state_conflict', target.status]
          ${conflicts ?? sql.literal("")}
        END AS refusal,
        ${changed} AS changed, target.version AS current_version, ${version} AS next_version
      FROM command LEFT JOIN target ON true
        LEFT JOIN audiences AS frozen ON frozen.project_id = ${projectId} AND frozen.id = target.audience_id
        ${from ?? sql.literal("")}
      -- A command that has waited for a freeze reads the new campaign, but its snapshot lacks the new audience. It returns no
      -- row, and is retried.
      WHERE target.audience_id IS NULL OR frozen.id IS NOT NULL
    ),
    decided AS MATERIALIZED (
      SELECT command.*, refusal[1] AS failure, refusal[2:] AS faults, ${resourceId ?? id}::text AS resource_id, changed,
        CASE WHEN refusal IS NULL THEN next_version ELSE current_version END AS version
      FROM command, checked
    )`,
  effect,
  problems: problemsOf(operation)
})

/** Creates a draft. */
export const create = (sql: Sql): Kind<{ readonly id: CampaignId; readonly name: string }, never> => ({
  args: { id: "text", name: "text" },
  decided: () => sql`
    decided AS MATERIALIZED (
      SELECT command.*, NULL::text AS failure, NULL::text[] AS faults, command.id AS resource_id, true AS changed, 1 AS version
      FROM command
    )`,
  effect: () => sql`
    created AS (
      INSERT INTO campaigns (project_id, id, name, created_at, updated_at)
      SELECT project_id, id, name, at, at FROM applied
    )`,
  problems: {}
})

/** Marks the campaign's audience, if any, for deletion by the pruner. */
export const abandonAudience = (sql: Sql, projectId: ProjectId, at: Date) => sql`
  abandoned AS (
    UPDATE audiences SET abandoned_at = ${at}::timestamptz FROM applied
    WHERE audiences.project_id = ${projectId} AND audiences.id = (SELECT audience_id FROM target)
  )`

export const remove = (
  sql: Sql,
  projectId: ProjectId,
  id: CampaignId,
  { expectedVersion, operation }: CommandOf<"delete">,
  at: Date
) =>
  commandOn(sql, projectId, id, operation, at, {
    conflicts: versionGuard(sql, expectedVersion),
    changed: sql`true`,
    version: sql`target.version`,
    effect: sql`
      removed AS (DELETE FROM campaigns USING applied WHERE campaigns.project_id = ${projectId} AND campaigns.id = ${id}),
      ${abandonAudience(sql, projectId, at)}`
  })

/** Creates the campaign `copy` as a draft with the same routes. */
export const duplicate = (
  sql: Sql,
  projectId: ProjectId,
  id: CampaignId,
  copy: CampaignId,
  { name, operation }: CommandOf<"duplicate">,
  at: Date
) =>
  commandOn(sql, projectId, id, operation, at, {
    changed: sql`true`,
    version: sql`1`,
    resourceId: copy,
    effect: sql`
      created AS (
        INSERT INTO campaigns (project_id, id, name, primary_template_id, primary_template_version, primary_channel_id,
          fallback_template_id, fallback_template_version, fallback_channel_id, created_at, updated_at)
        SELECT ${projectId}::text, ${copy}::text, coalesce(${name ?? null}::text, left(name || ' copy', 160)),
          primary_template_id, primary_template_version, primary_channel_id,
          fallback_template_id, fallback_template_version, fallback_channel_id, ${at}::timestamptz, ${at}::timestamptz
        FROM applied, target
      )`
  })
