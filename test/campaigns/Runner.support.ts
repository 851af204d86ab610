/** Campaigns made by SQL and ready to run, and providers that accept their messages. */
import { assert } from "@effect/vitest"
import { Effect, Schema, Struct } from "effect"
import { callsOf } from "../contract/Campaigns.support.ts"
import { httpChannel, taken, telegramChannel } from "../contract/Messages.support.ts"
import { type Answering, type Hit, receiver } from "../webhooks/delivery/Deliveries.support.ts"
import type { Seeded, TestServer } from "../support/TestServer.ts"
import { untilRows } from "../support/Waiting.ts"

const decodeBody = Schema.decodeUnknownSync(
  Schema.fromJsonString(
    Schema.Struct({
      messageId: Schema.String,
      conversationId: Schema.Null,
      recipient: Schema.String,
      text: Schema.String
    })
  )
)

/** Decodes a send that a provider has received. */
export const sendOf = ({ body }: Hit) => decodeBody(body)

export const provider = (answer: Answering = taken) => receiver(answer)

/** The properties of a campaign. */
export interface Plan {
  readonly recipients: number
  /** The providers of the two routes. */
  readonly primary: string
  /** The default is `http`. */
  readonly primaryType?: "http" | "telegram"
  readonly fallback?: string
  readonly sendsPerMinute?: number
  readonly status?: "scheduled" | "running"
  /** Milliseconds until a scheduled campaign begins. */
  readonly scheduledIn?: number
  readonly body?: string
}

export const clientId = (index: number) => `cli_${String(index).padStart(6, "0")}`
export const addressOf = (index: number) => `address-${index}`

export interface Recipient {
  readonly status: string
  readonly route: string
  readonly attempts: number
  readonly inDoubt: boolean
}

const isFinal = Schema.is(Schema.Literals(["sent", "failed", "unknown", "skipped"]))

/** Creates a project with a campaign; returns calls on the campaign and the state of its recipients. */
export const campaignOf = Effect.fnUntraced(function* (server: TestServer["Service"], plan: Plan) {
  const { body = "Hello {{firstName}}", fallback, primary, recipients, scheduledIn = 0, sendsPerMinute = 60_000 } = plan
  const primaryChannel = plan.primaryType === "telegram" ? telegramChannel : httpChannel
  const indices = Array.from({ length: recipients }, (_, index) => index)
  const seeded: Seeded = yield* server.seed({
    channels: [
      primaryChannel("primary", primary),
      ...(fallback === undefined ? [] : [httpChannel("fallback", fallback)])
    ],
    clients: indices.map((index) => ({
      id: clientId(index),
      displayName: `Client ${index}`,
      firstName: `First ${index}`,
      addresses: (fallback === undefined ? ["primary"] : ["primary", "fallback"]).map((channelId) => ({
        channelId,
        address: addressOf(index)
      }))
    }))
  })
  const { projectId } = seeded
  const { sql } = server
  yield* Effect.orDie(sql`UPDATE clients SET marketing_consent = true WHERE project_id = ${projectId}`)
  yield* Effect.orDie(sql`
    INSERT INTO templates (project_id, id, version, name, body) VALUES (${projectId}, 'tpl', 1, 'Template', ${body})`)
  yield* Effect.orDie(sql`
    INSERT INTO audiences (project_id, id, filter, candidate_count, eligible_count, merged, filter_mismatch,
      consent_not_granted, suppressed, channel_unavailable, duplicate, created_at)
    VALUES (${projectId}, 'aud', '{}', ${recipients}, ${recipients}, 0, 0, 0, 0, 0, 0, now())`)
  yield* Effect.orDie(sql`
    INSERT INTO campaign_recipients (project_id, audience_id, position, client_id)
    SELECT ${projectId}, 'aud', row_number() OVER (ORDER BY id) - 1, id FROM clients WHERE project_id = ${projectId}`)
  const route = fallback === undefined ? null : "tpl"
  yield* Effect.orDie(sql`
    INSERT INTO campaigns (project_id, id, name, status, primary_template_id, primary_template_version,
      primary_channel_id, fallback_template_id, fallback_template_version, fallback_channel_id, audience_id,
      scheduled_for, sends_per_minute, created_at, updated_at)
    VALUES (${projectId}, 'cmp', 'Campaign', ${plan.status ?? "running"}, 'tpl', 1, 'primary', ${route},
      ${route === null ? null : 1}, ${route === null ? null : "fallback"}, 'aud',
      ${new Date(Date.now() + scheduledIn)}, ${sendsPerMinute}, now(), now())`)

  const campaign = Effect.map(
    Effect.orDie(sql<{ readonly status: string; readonly version: number; readonly pausedFrom: string | null }>`
      SELECT status, version, paused_from AS "pausedFrom" FROM campaigns WHERE project_id = ${projectId} AND id = 'cmp'`),
    ([row = assert.fail("no campaign")]) => row
  )
  const settled = (status: string) => untilRows(campaign, (row) => row.status === status)
  const calls = callsOf(server, seeded)
  const command = (operation: string, parameters: object = {}) => calls.done("cmp", { operation, ...parameters })
  return {
    ...seeded,
    sql,
    campaign,
    /** Sends a command through the API. */
    command,
    /** Reschedules the campaign to now. */
    begin: command("schedule", { scheduledForLocal: null, sendsPerMinute }),
    /** Applies a project file. */
    apply: calls.apply,
    /** Waits until the campaign is in a state. */
    settled,
    /** Reads the recipients, which the counts of their audience agree with at any time. */
    recipients: Effect.orDie(sql<Recipient & Readonly<Record<"counts", object>>>`
      SELECT status, route, attempts, in_doubt AS "inDoubt", json_build_object('sent', sent_count, 'failed', failed_count,
        'unknown', unknown_count, 'skipped', skipped_count) AS counts
      FROM campaign_recipients AS recipient
        JOIN audiences ON audiences.project_id = recipient.project_id AND audiences.id = recipient.audience_id
      WHERE recipient.project_id = ${projectId} AND audience_id = 'aud' ORDER BY position`).pipe(
      Effect.map((rows) => {
        const counted = { sent: 0, failed: 0, unknown: 0, skipped: 0 }
        for (const { status } of rows) if (isFinal(status)) counted[status]++
        for (const { counts } of rows.slice(0, 1)) assert.deepStrictEqual(counts, counted)
        return rows.map((row): Recipient => Struct.omit(row, ["counts"]))
      })
    )
  }
})

/** Cancels the campaigns that other tests have left. */
export const cancelAll = ({ sql }: TestServer["Service"]) =>
  Effect.orDie(sql`UPDATE campaigns SET status = 'cancelled'`)
