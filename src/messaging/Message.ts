/**
 * A message: its states and the moves between them (contract §8), as data; what follows the outcome of a provider call, which is a move and
 * the delay of the next attempt; and SQL that creates and reads it.
 *
 *   pending ──▶ sent, failed        the first attempt has an outcome
 *      │
 *      ├──▶ retrying ──▶ …          no attempt was processed; another follows
 *      └──▶ unknown ──▶ …           an attempt may have been processed. Another follows only over a provider with
 *                                   idempotency keys; otherwise the message stays unknown until an operator settles it
 *
 * An attempt in flight does not change the state. `attempts` is the fencing token of its lease: only the result of the latest
 * attempt is recorded, and only while this attempt is in flight.
 */
import type { Statement } from "effect/sql"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { ChannelId, ConversationId, MessageId, ProjectId } from "../api/schema/Ids.ts"
import {
  type AttemptStatus,
  type MessageReceipt,
  type MessageStatus,
  messageStatuses,
  type ProviderType
} from "../api/messaging/Messaging.ts"
import { ConversationNotFound } from "../api/Problems.ts"
import { selectList } from "../sql/Columns.ts"
import { type Mutation, plain } from "../commands/Command.ts"
import type { EventContext } from "../outbox/Outbox.ts"
import { Duration, Option } from "effect"
import { machine, startsOf, targetOf } from "../api/schema/States.ts"
import { isIdempotent } from "./providers/Connectors.ts"
import type { CallOutcome } from "./providers/Connector.ts"

/** Makes moves to one state from all states in which an attempt may be in flight. */
const attempted = <const To extends MessageStatus>(to: To) => ({ pending: to, retrying: to, unknown: to })

export const messages = machine({
  states: messageStatuses,
  moves: {
    accepted: attempted("sent"),
    refused: attempted("failed"),
    /** The attempt was certainly not processed, and attempts are left. */
    postponed: attempted("retrying"),
    /** No attempt was processed, and no attempts are left. */
    exhausted: attempted("failed"),
    /** The attempt was refused or was the last, and certainly not processed. But an earlier attempt may have been processed. */
    ended_in_doubt: attempted("unknown"),
    /** The attempt may have been processed. */
    unclear: attempted("unknown"),
    /** No attempt follows: `claim` and `giveUpMessages` say when (`Claim.ts`). */
    given_up: { retrying: "failed" },
    given_up_in_doubt: { retrying: "unknown", unknown: "unknown" },
    settled_sent: { unknown: "sent" },
    settled_failed: { unknown: "failed" }
  }
})
export type Move = keyof typeof messages.moves
/** The moves that are possible only while no attempt is in flight. */
type GivenUp = "given_up" | "given_up_in_doubt"

/** The status that each move gives to the attempt in flight. */
export const attemptAfter: Readonly<Record<Exclude<Move, GivenUp>, AttemptStatus>> = {
  accepted: "accepted",
  refused: "rejected",
  postponed: "retrying",
  exhausted: "rejected",
  ended_in_doubt: "rejected",
  unclear: "unknown",
  settled_sent: "unknown",
  settled_failed: "unknown"
}

export const after = (move: Move): MessageStatus => targetOf(messages, move)

export const before = (move: Move): ReadonlyArray<MessageStatus> => startsOf(messages, move)

/** Returns a SQL condition on the status of a message without an attempt in flight: another attempt may follow. */
export const isWaiting = (sql: Sql, status: string): Statement.Fragment =>
  sql.literal(
    `${status} IN (${before("given_up_in_doubt")
      .map((state) => `'${state}'`)
      .join(", ")})`
  )

/**
 * Returns SQL for the status of a message that is given up. `inDoubt` is the SQL condition that an attempt may have been
 * processed.
 */
export const givenUp = (sql: Sql, inDoubt: string): Statement.Fragment =>
  sql.literal(`CASE WHEN ${inDoubt} THEN '${after("given_up_in_doubt")}' ELSE '${after("given_up")}' END`)

/** Delays before the second attempt and later ones. */
const backoff = [Duration.seconds(1), Duration.seconds(5), Duration.seconds(30), Duration.minutes(2)]

/** What the result of an attempt depends on, besides the outcome of its call. */
export interface Attempt {
  /** The number of the attempt. Its result is recorded only while it is the latest attempt. */
  readonly number: number
  /** Whether an earlier attempt may have been processed. */
  readonly inDoubt: boolean
  readonly providerType: ProviderType
  /** Number of earlier attempts without a call. The maximum of attempts does not include these. */
  readonly uncalled?: number
  /** Milliseconds since the message was created. */
  readonly ageMillis?: number
}

export interface Result {
  readonly on: Exclude<Move, `given_up${string}` | `settled_${string}`>
  readonly providerMessageId: string | null
  readonly errorCode: string | null
  /** What the provider answered instead of accepting, for operators. */
  readonly reason?: string | undefined
  /** Milliseconds until the next attempt; null if there is none. */
  readonly delayMillis: number | null
}

/**
 * Error codes of attempts without a call: the circuit was open, the process ended, no key opened the channel's config, or this host
 * had no connection.
 */
const uncalled = ["circuit_open", "interrupted", "config_unreadable", "host_exhausted"]

/** Maximum time for which a message waits while its provider can't be called. */
export const longestWait = Duration.hours(24)

/** Returns the delay before the next attempt. An attempt without a call does not count, and is repeated until `longestWait`. */
const nextAfter = ({ ageMillis = 0, number, uncalled: earlier = 0 }: Attempt, outcome: CallOutcome) => {
  if (outcome._tag !== "postponed" || !uncalled.includes(outcome.errorCode)) return backoff[number - 1 - earlier]
  return ageMillis < Duration.toMillis(longestWait) ? (backoff[number - 1] ?? backoff.at(-1)) : undefined
}

export const resultOf = (attempt: Attempt, outcome: CallOutcome): Result => {
  const { inDoubt, providerType } = attempt
  const next = nextAfter(attempt, outcome)
  const delay = Option.map(Option.fromUndefinedOr(next), Duration.toMillis)
  const reason = outcome._tag === "accepted" ? undefined : outcome.reason
  const common = { providerMessageId: null, errorCode: null, reason, delayMillis: null }
  switch (outcome._tag) {
    case "accepted":
      return { ...common, on: "accepted", providerMessageId: outcome.providerMessageId }
    case "refused":
      return { ...common, on: inDoubt ? "ended_in_doubt" : "refused", errorCode: outcome.errorCode }
    case "postponed":
      return Option.match(delay, {
        onNone: () => ({ ...common, on: inDoubt ? "ended_in_doubt" : "exhausted", errorCode: outcome.errorCode }),
        onSome: (delay) => {
          const requested = Option.getOrElse(Option.map(outcome.retryAfter, Duration.toMillis), () => 0)
          return { ...common, on: "postponed", errorCode: outcome.errorCode, delayMillis: Math.max(delay, requested) }
        }
      })
    case "unknown":
      return {
        ...common,
        on: "unclear",
        errorCode: outcome.errorCode,
        delayMillis: isIdempotent(providerType) ? Option.getOrNull(delay) : null
      }
  }
}

export interface Message extends MessageReceipt {
  /** Milliseconds until the lease of an attempt in flight ends, or until the next attempt; null if there is neither. */
  readonly waitMillis: number | null
  readonly ageMillis: number
}

export const receiptColumns = selectList({
  messageId: "messages.id",
  conversationId: "messages.conversation_id",
  sourceId: "channels.source_id",
  deliveryStatus: "messages.status",
  createdAt: ["messages.created_at", "timestamptz"],
  updatedAt: ["messages.updated_at", "timestamptz"],
  // Reasons are for operators alone.
  attempts: `CASE WHEN messages.attempt_log @? '$[*].reason' THEN (
    SELECT jsonb_agg(entry - 'reason' ORDER BY place) FROM jsonb_array_elements(messages.attempt_log) WITH ORDINALITY AS log (entry, place)
  ) ELSE messages.attempt_log END`
})

export const columns = (sql: Sql, now: Statement.Fragment) => sql`
  ${sql.literal(receiptColumns)},
  (extract(epoch FROM messages.available_at - ${now}) * 1000)::float8 AS "waitMillis",
  (extract(epoch FROM ${now} - messages.created_at) * 1000)::float8 AS "ageMillis"`

/** SQL for the log entry of an attempt that starts. `number` is an SQL expression, and `at` a time as text. */
export const startedAttempt = (sql: Sql, number: string, at: Statement.Fragment) => sql`jsonb_build_object(
  'number', ${sql.literal(number)}, 'status', 'pending', 'startedAt', ${at}, 'finishedAt', NULL,
  'providerMessageId', NULL, 'errorCode', NULL, 'nextAttemptAt', NULL)`

/** SQL for the log of a message, changed so that no attempt follows the last one. */
export const endedLog = "jsonb_set(attempt_log, '{-1,nextAttemptAt}', 'null')"

/** An SQL condition: an attempt of a message may have been processed. */
export const inDoubt = `attempt_log @? '$[*] ? (@.status == "unknown")'`

const isUncalled = `$[*] ? (@.status == "retrying" && (${uncalled.map((code) => `@.errorCode == "${code}"`).join(" || ")}))`

/** SQL for the number of attempts without a call, in a row of `messages`. The number includes those that `keptLog` has dropped. */
export const uncalledAttempts = `(attempts - jsonb_array_length(attempt_log)
  + jsonb_array_length(jsonb_path_query_array(attempt_log, '${isUncalled}')))`

/** SQL for the log to which the next attempt is added: its newest 30 entries, and all attempts with a call. */
export const keptLog = (log: string) => `(
  SELECT coalesce(jsonb_agg(entry ORDER BY place), '[]') FROM jsonb_array_elements(${log}) WITH ORDINALITY AS log (entry, place)
  WHERE place > jsonb_array_length(${log}) - 30 OR NOT entry @? '${isUncalled}')`

/** The data of a conversation that the first attempt needs. `config` is encoded as hex. */
export interface Destination {
  readonly status: "active" | "revoked"
  readonly channelId: ChannelId
  readonly providerType: ProviderType
  readonly address: string
  readonly config: string
}

/** Creates a message with its first attempt, leased to the caller. On a revoked channel the message fails at once. */
export const create = (
  sql: Sql,
  { at, projectId, traceparent }: EventContext,
  message: { readonly id: MessageId; readonly conversationId: ConversationId; readonly text: string },
  leaseEnd: Statement.Fragment
): Mutation<ConversationNotFound> => ({
  at,
  decided: sql`
    conversation AS MATERIALIZED (
      SELECT conversations.id, conversations.address, channels.id AS channel_id, channels.provider_type,
        channels.provider_version,
        channels.status, channels.config, channels.status = 'active' AS active
      FROM command JOIN conversations USING (project_id)
        JOIN channels ON channels.project_id = conversations.project_id AND channels.id = conversations.channel_id
      WHERE conversations.id = ${message.conversationId} AND conversations.address <> ''
    ),
    decided AS MATERIALIZED (
      SELECT command.*, CASE WHEN conversation.id IS NULL THEN 'conversation_not_found' END AS failure,
        NULL::text[] AS faults, ${message.id}::text AS resource_id, true AS changed, NULL::int AS version
      FROM command LEFT JOIN conversation ON true
    )`,
  effect: sql`
    message AS (
      INSERT INTO messages (project_id, id, conversation_id, channel_id, provider_type, provider_version, address, text, status, attempts,
        attempting, attempt_log, available_at, traceparent, created_at, updated_at)
      SELECT ${projectId}::text, ${message.id}::text, id, channel_id, provider_type, provider_version, address, ${message.text}::text,
        CASE WHEN active THEN 'pending' ELSE 'failed' END, active::int, active,
        CASE WHEN active THEN jsonb_build_array(${startedAttempt(sql, "1", sql`${at.toISOString()}::text`)}) ELSE '[]' END,
        CASE WHEN active THEN ${leaseEnd} END,
        ${traceparent}::text, ${at}::timestamptz, ${at}::timestamptz
      FROM applied, conversation
    )`,
  returning: sql`(
    SELECT json_build_object('status', conversation.status, 'channelId', channel_id, 'providerType', provider_type,
      'address', address, 'config', encode(config, 'hex'))
    FROM conversation)`,
  problems: plain(ConversationNotFound)
})

export const find = (sql: Sql, now: Statement.Fragment, projectId: ProjectId, id: MessageId) => sql<Message>`
  SELECT ${columns(sql, now)} FROM messages
    JOIN channels ON channels.project_id = messages.project_id AND channels.id = messages.channel_id
  WHERE messages.project_id = ${projectId} AND messages.id = ${id}`
