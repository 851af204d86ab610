/** SQL that creates, reads, duplicates and deletes campaigns. */
import type { SqlClient } from "effect/sql"
import type { Audience } from "../../api/campaigns/Audience.ts"
import type { CommandOf } from "../../api/campaigns/Commands.ts"
import type { CampaignId, ProjectId } from "../../api/schema/Ids.ts"
import type { Kind } from "../../commands/Kind.ts"
import { commandOn, versionGuard } from "./Target.ts"

type Sql = SqlClient.SqlClient

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
      SELECT project_id, id, name, at, at FROM claim
    )`,
  problems: {}
})

interface Current {
  readonly version: number
  readonly audience: Audience | null
}

export const current = (sql: Sql, projectId: ProjectId, id: CampaignId) => sql<Current>`
  SELECT campaigns.version,
    CASE WHEN audiences.id IS NOT NULL THEN json_build_object(
      'filter', filter, 'candidateCount', candidate_count, 'eligibleCount', eligible_count,
      'exclusions', json_build_object(
        'consent_not_granted', consent_not_granted, 'suppressed', suppressed, 'merged', merged,
        'filter_mismatch', filter_mismatch, 'channel_unavailable', channel_unavailable, 'duplicate', duplicate
      )
    ) END AS audience
  FROM campaigns LEFT JOIN audiences
    ON audiences.project_id = campaigns.project_id AND audiences.id = campaigns.audience_id
  WHERE campaigns.project_id = ${projectId} AND campaigns.id = ${id}`

/** Marks the campaign's audience, if any, for deletion by the pruner. */
export const abandonAudience = (sql: Sql, projectId: ProjectId, at: Date) => sql`
  abandoned AS (
    UPDATE audiences SET abandoned_at = ${at}::timestamptz FROM claim
    WHERE audiences.project_id = ${projectId} AND audiences.id = (SELECT audience_id FROM target)
  )`

export const remove = (
  sql: Sql,
  projectId: ProjectId,
  id: CampaignId,
  { expectedVersion, operation }: CommandOf<"delete">,
  at: Date
) =>
  commandOn(sql, {
    projectId,
    id,
    operation,
    at,
    conflicts: versionGuard(sql, expectedVersion),
    changed: sql`true`,
    version: sql`target.version`,
    effect: sql`
      removed AS (DELETE FROM campaigns USING claim WHERE campaigns.project_id = ${projectId} AND campaigns.id = ${id}),
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
  commandOn(sql, {
    projectId,
    id,
    operation,
    at,
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
        FROM claim, target
      )`
  })
