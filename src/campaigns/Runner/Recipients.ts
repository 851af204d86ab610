/** The states of a recipient of a campaign, with all moves between them (contract §9), and the outcomes of its messages. */
import type { SqlClient, Statement } from "effect/sql"
import type { ProviderType } from "../../api/messaging/Messaging.ts"
import { isInDoubt, nextAttemptAt } from "../../messaging/CampaignMessages.ts"
import { maxAttempts } from "../../messaging/RetrySchedule.ts"

type Sql = SqlClient.SqlClient

export const states = ["pending", "sending", "sent", "failed", "unknown", "skipped"] as const
type State = (typeof states)[number]

interface Move {
  readonly on: string
  readonly from: State
  readonly to: State
  /** Of a recipient whose message left the queue: the SQL condition under which the move applies. The first one does. */
  readonly when?: string
}

/** Columns of `message` are those of the last message to the recipient, without attempt in flight. */
export const moves = [
  /** A message to the recipient is in the queue, with its attempt leased. */
  { on: "released", from: "pending", to: "sending" },
  /** The client withdrew consent, was suppressed, archived or merged after the freeze. */
  { on: "skipped", from: "pending", to: "skipped" },
  /** No route reaches the client any more. */
  { on: "unreachable", from: "pending", to: "failed" },
  /** In doubt, and skipped or without the route of the last attempt: the outcome cannot be determined. */
  { on: "undetermined", from: "pending", to: "unknown" },
  { on: "accepted", from: "sending", to: "sent", when: "message.status = 'sent'" },
  /** Certainly not processed on the primary route: the fallback route is next. */
  {
    on: "diverted",
    from: "sending",
    to: "pending",
    when: "message.status = 'failed' AND diverts AND NOT outcome.in_doubt"
  },
  { on: "refused", from: "sending", to: "failed", when: "message.status = 'failed'" },
  /** Not processed, or processed under the key of its provider: the same message again, after the backoff. */
  { on: "postponed", from: "sending", to: "pending", when: "next_at IS NOT NULL" },
  { on: "unclear", from: "sending", to: "unknown", when: "message.status = 'unknown'" },
  /** An earlier version has leased the recipient without a message, and its lease has ended. */
  { on: "lost", from: "sending", to: "pending", when: "message.id IS NULL AND repeatable" },
  { on: "lost_final", from: "sending", to: "unknown", when: "message.id IS NULL" }
] as const satisfies ReadonlyArray<Move>

export type Event = (typeof moves)[number]["on"]

const byEvent: Readonly<Record<string, Move>> = Object.fromEntries(moves.map((move) => [move.on, move]))

/** Returns the state that an event leads to. */
export const after = (on: Event): State => byEvent[on]?.to ?? "unknown"

/** States that are not final. A campaign is completed when none of its recipients is in one of them. */
export const open = ["pending", "sending"] as const satisfies ReadonlyArray<State>

/** The SQL condition that a status is not final. */
export const isOpen = (status: string) => `${status} IN (${open.map((state) => `'${state}'`).join(", ")})`

const ends = moves.filter((move): move is typeof move & { readonly when: string } => "when" in move)
/** The event of a recipient whose message left the queue; NULL while none applies. */
const event = `CASE ${ends.map(({ on, when }) => `WHEN ${when} THEN '${on}'`).join(" ")} END`
const target = `CASE event ${ends.map(({ on, to }) => `WHEN '${on}' THEN '${to}'`).join(" ")} END`

/** Maximum number of recipients that one statement moves. */
const batch = 1_000

/**
 * Moves the recipients whose message left the queue, by its outcome. The message is the only record of what was sent, so
 * whoever has recorded it, and whenever the process died, the recipient gets that outcome once. `attempts` is the fence: a
 * recipient that is released again has a later attempt than the one that this statement sees.
 *
 * Lock order: recipients only, with SKIP LOCKED.
 */
export const collect = (
  sql: Sql,
  { idempotent, now }: { readonly now: Statement.Fragment; readonly idempotent: ReadonlyArray<ProviderType> }
) => sql`
  WITH ended AS MATERIALIZED (
    SELECT recipient.project_id, recipient.audience_id, recipient.position, outcome.in_doubt, next_at, message.attempts,
      ${sql.literal(event)} AS event
    FROM campaign_recipients AS recipient
      LEFT JOIN messages AS message ON message.project_id = recipient.project_id AND message.id = recipient.message_id
      LEFT JOIN campaigns ON campaigns.project_id = message.project_id AND campaigns.id = message.campaign_id
      CROSS JOIN LATERAL (
        SELECT recipient.route = 'primary' AND campaigns.fallback_channel_id IS NOT NULL AS diverts,
          message.id IS NULL OR ${sql.literal(isInDoubt)} AS in_doubt, ${sql.literal(nextAttemptAt)} AS next_at,
          recipient.attempts < ${maxAttempts}::int
            AND coalesce(recipient.provider_type = ANY(${[...idempotent]}::text[]), false) AS repeatable
      ) AS outcome
    WHERE recipient.status = 'sending' AND CASE WHEN recipient.message_id IS NULL THEN recipient.available_at <= ${now}
      ELSE message.available_at IS NULL AND message.attempts >= recipient.attempts END
    LIMIT ${batch}::int
    FOR NO KEY UPDATE OF recipient SKIP LOCKED
  )
  UPDATE campaign_recipients AS recipient SET status = ${sql.literal(target)}, in_doubt = ended.in_doubt, worker_id = NULL,
    available_at = CASE event WHEN 'lost' THEN ${now} ELSE next_at END,
    route = CASE event WHEN 'diverted' THEN 'fallback' ELSE recipient.route END,
    attempts = CASE event WHEN 'diverted' THEN 0 ELSE coalesce(ended.attempts, recipient.attempts) END
  FROM ended
  WHERE recipient.project_id = ended.project_id AND recipient.audience_id = ended.audience_id
    AND recipient.position = ended.position AND event IS NOT NULL`
