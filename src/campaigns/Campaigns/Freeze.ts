/** Freezes an audience: one statement classifies the candidates and stores the eligible ones. */
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import { type AudienceFilter, exclusions } from "../../api/campaigns/Audience.ts"
import type { AudienceId, CampaignId, ProjectId } from "../../api/schema/Ids.ts"
import { abandonAudience, commandOn, maxCandidates } from "../CommandStatement.ts"

/**
 * The clients of a segment, or all clients. `OFFSET 0`, here and below, makes PostgreSQL look up each row by its key. Otherwise,
 * with outdated statistics, the planner may expect few rows and choose a join that takes quadratic time.
 */
const clients = (sql: Sql, projectId: ProjectId, segmentId: string | null) =>
  segmentId === null
    ? sql`(SELECT * FROM clients WHERE project_id = ${projectId}) AS client`
    : sql`segment_clients AS member, LATERAL (
        SELECT * FROM clients WHERE project_id = ${projectId} AND id = member.client_id OFFSET 0
      ) AS client`

const memberOf = (sql: Sql, projectId: ProjectId, segmentId: string | null) =>
  segmentId === null ? sql`true` : sql`member.project_id = ${projectId} AND member.segment_id = ${segmentId}`

/** Whether `client` passes the filter, apart from its segment and provider types. NULL counts as false. */
const passes = (sql: Sql, projectId: ProjectId, filter: AudienceFilter) => sql`(
  (${filter.contactStatus}::text = 'all' OR status = ${filter.contactStatus}::text)
  AND tags @> ${[...filter.requiredTags]}::text[]
  AND (cardinality(${[...filter.stageIds]}::text[]) = 0 OR client.id IN (
    SELECT deals.client_id FROM deals
    WHERE deals.project_id = ${projectId} AND deals.lifecycle = 'active' AND deals.status = 'open'
      AND deals.stage_id = ANY(${[...filter.stageIds]}::text[])
  ))
  AND (NOT ${filter.loyaltyCardRequired}::boolean OR loyalty_card_number IS NOT NULL)
  AND (cardinality(${[...filter.loyaltyLevelIds]}::text[]) = 0
    OR loyalty_level_id = ANY(${[...filter.loyaltyLevelIds]}::text[]))
  AND loyalty_balance >= coalesce(${filter.minimumLoyaltyBalance}::integer, 0)
  AND (cardinality(${[...filter.readyStampOfferIds]}::text[]) = 0
    OR ready_stamp_offer_ids && ${[...filter.readyStampOfferIds]}::text[])
)`

/** Counts the candidates, up to one more than `maxCandidates`. */
const candidateCount = (sql: Sql, projectId: ProjectId, segmentId: string | null) =>
  segmentId === null
    ? sql`SELECT count(*) FROM (
        SELECT FROM clients WHERE clients.project_id = ${projectId} LIMIT ${maxCandidates + 1}::int
      ) AS candidate`
    : sql`SELECT contact_count FROM segments WHERE segments.project_id = ${projectId} AND segments.id = ${segmentId}`

const counted = exclusions.map((exclusion) => `count(*) FILTER (WHERE outcome = '${exclusion}')`).join(", ")

export const freeze = (
  sql: Sql,
  projectId: ProjectId,
  id: CampaignId,
  audienceId: AudienceId,
  filter: AudienceFilter,
  at: Date
) =>
  commandOn(sql, projectId, id, "freeze_audience", at, {
    conflicts: sql`
      WHEN ${filter.segmentId}::text IS NOT NULL AND NOT EXISTS (
        SELECT FROM segments WHERE segments.project_id = ${projectId} AND segments.id = ${filter.segmentId}::text
      ) THEN ARRAY['campaign_reference_not_found', 'segmentId']
      WHEN (${candidateCount(sql, projectId, filter.segmentId)}) > ${maxCandidates}::int
        THEN ARRAY['campaign_state_conflict', 'candidates']`,
    changed: sql`true`,
    version: sql`target.version + 1`,
    effect: sql`
      candidate AS MATERIALIZED (
        SELECT row_number() OVER (ORDER BY client.created_at, client.id)::int AS place, client.id,
          CASE
            WHEN merged_into_client_id IS NOT NULL THEN 'merged'
            WHEN ${passes(sql, projectId, filter)} IS NOT TRUE THEN 'filter_mismatch'
            WHEN NOT marketing_consent THEN 'consent_not_granted'
            WHEN suppressed THEN 'suppressed'
          END AS exclusion
        FROM ${clients(sql, projectId, filter.segmentId)}
        WHERE ${memberOf(sql, projectId, filter.segmentId)} AND (SELECT true FROM applied)
      ),
      reach AS (
        SELECT place, dense_rank() OVER (ORDER BY channel_id, address)::int AS pair
        FROM candidate, LATERAL (
          SELECT channel_id, address FROM client_addresses WHERE project_id = ${projectId} AND client_id = candidate.id
          OFFSET 0
        ) AS reached
        WHERE exclusion IS NULL AND CASE WHEN channel_id IN (
          SELECT channels.id FROM channels
          WHERE channels.project_id = ${projectId} AND channels.status = 'active'
            AND (cardinality(${[...filter.providerTypes]}::text[]) = 0
              OR channels.provider_type = ANY(${[...filter.providerTypes]}::text[]))
        ) THEN true ELSE false END
      ),
      first AS MATERIALIZED (
        SELECT first_come(
          coalesce(array_agg(place ORDER BY place), '{}'), coalesce(array_agg(pair ORDER BY place), '{}'),
          (SELECT count(*) FROM candidate)::int, coalesce(max(pair), 0)
        ) AS verdicts
        FROM reach
      ),
      classified AS MATERIALIZED (
        SELECT place, id, coalesce(
          exclusion,
          CASE (SELECT verdicts FROM first)[place] WHEN 1 THEN 'eligible' WHEN 2 THEN 'duplicate' ELSE 'channel_unavailable' END
        ) AS outcome
        FROM candidate
      ),
      counted AS (
        SELECT count(*) AS candidates, count(*) FILTER (WHERE outcome = 'eligible') AS eligible,
          ${sql.literal(counted)}
        FROM classified
      ),
      audience AS (
        INSERT INTO audiences (project_id, id, filter, created_at,
          candidate_count, eligible_count, ${sql.literal(exclusions.join(", "))})
        SELECT ${projectId}::text, ${audienceId}::text, ${JSON.stringify(filter)}::json, ${at}::timestamptz, counted.*
        FROM applied, counted
        RETURNING project_id, id
      ),
      recipients AS (
        INSERT INTO campaign_recipients (project_id, audience_id, position, client_id)
        SELECT audience.project_id, audience.id, row_number() OVER (ORDER BY place) - 1, classified.id
        FROM audience, classified WHERE outcome = 'eligible'
      ),
      updated AS (
        UPDATE campaigns SET audience_id = ${audienceId}::text, version = campaigns.version + 1,
          updated_at = greatest(campaigns.updated_at, ${at}::timestamptz)
        FROM applied
        WHERE campaigns.project_id = ${projectId} AND campaigns.id = ${id}
      ),
      ${abandonAudience(sql, projectId, at)}`
  })
