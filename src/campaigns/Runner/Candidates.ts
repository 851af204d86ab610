/** The recipients that `release` (`Release.ts`) examines, and the move (change of state) of each: released, skipped, blocked, … */
import type { SqlClient, Statement } from "effect/sql"
import { idempotentTypes } from "../../messaging/providers/Connectors.ts"
import { isDueAgain, isFresh, openRecipients, type Terms } from "./Campaigns.ts"

type Sql = SqlClient.SqlClient

/** Number of recipients that are examined beyond the campaign's quota of sends, because some are skipped. */
const maxSkipped = 100

/**
 * The first recipients of each campaign, in the order of the index `campaign_recipients_open`. They are not locked here:
 * `moving` (`Release.ts`) locks the recipients that move.
 */
const first = (sql: Sql, isDue: Statement.Fragment) => sql`
  SELECT paced.*, recipient.* FROM paced, LATERAL (
    SELECT position, client_id, route AS last_route, provider_type AS last_provider, message_id AS last_message,
      attempts, in_doubt, available_at, retries
    FROM ${openRecipients(sql, "paced", isDue)}
    ORDER BY available_at, position LIMIT paced.quota + ${maxSkipped}::int
  ) recipient`

/** `again`: recipients whose `available_at` has passed. `fresh`: recipients whose route was not tried yet. */
export const candidates = (sql: Sql, { now }: Terms) => sql`
  again AS MATERIALIZED (${first(sql, isDueAgain(sql, now))}),
  fresh AS MATERIALIZED (${first(sql, isFresh(sql))})`

/**
 * The route and the move of each candidate. The move is one of `Recipients.ts`, or `blocked`. The rules:
 *
 * - A recipient keeps its route while the route can reach it.
 * - If an earlier attempt may have been processed, only the route of that attempt is possible, and only if its provider is
 *   unchanged, at the same address, and idempotent.
 * - A client that was archived after the audience was frozen is skipped. In an audience of active clients, every archived client
 *   is skipped without a comparison of times, because the clocks of processes may differ.
 * - A client that was erased is skipped.
 * - A recipient is `blocked` if the circuit of its channel admits no call. It stays as it is, and `Passed` has its position.
 */
export const checked = (sql: Sql) => sql`
  checked AS MATERIALIZED (
    SELECT candidate.*, reachable.*, clients.display_name, clients.first_name, clients.last_name,
      CASE
        WHEN is_excluded AND in_doubt OR reachable.kind IS NULL AND in_doubt THEN 'undetermined'
        WHEN is_excluded THEN 'skipped'
        WHEN reachable.kind IS NULL THEN 'unreachable'
        WHEN is_blocked THEN 'blocked'
        ELSE 'released'
      END AS move
    FROM (SELECT * FROM again UNION ALL SELECT * FROM fresh) candidate
      LEFT JOIN clients ON clients.project_id = candidate.project_id AND clients.id = candidate.client_id
      CROSS JOIN LATERAL (
        SELECT clients.id IS NULL OR clients.status = 'archived' AND clients.archived_at > frozen_at OR NOT clients.marketing_consent
          OR clients.suppressed OR clients.merged_into_client_id IS NOT NULL
      ) AS eligibility (is_excluded)
      LEFT JOIN LATERAL (
        SELECT route.kind, route.channel_id, route.provider_type, route.provider_version, route.config, route.parts, is_blocked,
          address.address
        FROM route, LATERAL (
          SELECT address FROM client_addresses
          WHERE project_id = candidate.project_id AND client_id = candidate.client_id AND channel_id = route.channel_id
          ORDER BY position LIMIT 1
        ) address
        WHERE route.project_id = candidate.project_id AND route.campaign_id = candidate.id
          AND CASE
            WHEN candidate.in_doubt
              THEN route.kind = candidate.last_route AND route.provider_type = candidate.last_provider
                AND route.provider_version = (
                  SELECT provider_version FROM messages
                  WHERE project_id = candidate.project_id AND id = candidate.last_message LIMIT 1
                )
                AND route.provider_type = ANY(${[...idempotentTypes]}::text[])
            ELSE candidate.last_route = 'primary' OR route.kind = 'fallback'
          END
        ORDER BY route.rank LIMIT 1
      ) reachable ON true
  )`
