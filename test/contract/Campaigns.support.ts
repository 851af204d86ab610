/** A project for one test, with the operations on its campaigns. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { CampaignStatus } from "../../src/api/campaigns/Commands.ts"
import { audienceOf } from "../support/CampaignAnswers.ts"
import { receiptOf } from "../support/ContractAnswers.ts"
import { type Parts, type Seeded, TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"

export const path = "/api/v1/developer/campaigns"

/** The columns of a campaign that tests of commands read. */
export interface CampaignRow {
  readonly name: string
  readonly status: CampaignStatus
  readonly version: number
  readonly primary: ReadonlyArray<string | null>
  readonly fallback: ReadonlyArray<string | null>
  readonly audienceId: string | null
  readonly scheduledFor: Date | null
  readonly sendsPerMinute: number | null
  readonly pausedFrom: string | null
  readonly resumedAt: Date | null
  readonly createdAt: Date
  readonly updatedAt: Date
}

/** A filter that every client passes. */
export const everybody = { contactStatus: "all", providerTypes: [], requiredTags: [], stageIds: [] }

/** Returns calls on a project's campaigns with one of its tokens. */
export const callsOf = (server: TestServer["Service"], { projectId, token }: Seeded) => {
  const { apply, send, sql } = server
  const campaignPath = (id: string) => `${path}/${encodeURIComponent(id)}`
  const command = (id: string, json: unknown, key = newKey()) =>
    send({ method: "PATCH", path: campaignPath(id), token, key, json })
  const row = (id: string) =>
    sql<CampaignRow>`
      SELECT name, status, version, audience_id AS "audienceId", scheduled_for AS "scheduledFor",
        sends_per_minute AS "sendsPerMinute", paused_from AS "pausedFrom", resumed_at AS "resumedAt",
        ARRAY[primary_template_id, primary_template_version::text, primary_channel_id] AS primary,
        ARRAY[fallback_template_id, fallback_template_version::text, fallback_channel_id] AS fallback,
        created_at AS "createdAt", updated_at AS "updatedAt"
      FROM campaigns WHERE project_id = ${projectId} AND id = ${id}`.pipe(Effect.orDie)
  const read = (id: string) =>
    Effect.map(row(id), ([campaign]) => {
      if (campaign === undefined) throw new Error(`There is no campaign ${id}`)
      return campaign
    })
  const done = (id: string, json: unknown) => Effect.map(command(id, json), (answer) => receiptOf(answer, 200))
  const freeze = (id: string, filter: object = {}) =>
    done(id, { operation: "freeze_audience", filter: { ...everybody, ...filter } })
  return {
    server,
    projectId,
    token,
    command,
    /** Sends a command that has to succeed; returns its receipt. */
    done,
    /** Reads the campaign; fails if there is none. */
    read,
    exists: (id: string) => Effect.map(row(id), (rows) => rows.length > 0),
    freeze,
    audience: (id: string) => Effect.map(send({ path: `${campaignPath(id)}/audience`, token }), audienceOf),
    /** Returns the clients of a campaign's frozen audience, in order. */
    recipients: (id: string) =>
      sql<{ readonly clientId: string; readonly position: number }>`
        SELECT client_id AS "clientId", position FROM campaign_recipients
          JOIN campaigns USING (project_id, audience_id)
        WHERE project_id = ${projectId} AND campaigns.id = ${id} ORDER BY position`.pipe(
        Effect.map((rows) => {
          assert.deepStrictEqual(
            rows.map(({ position }) => position),
            rows.map((_, index) => index)
          )
          return rows.map(({ clientId }) => clientId)
        }),
        Effect.orDie
      ),
    /** The number of audiences of the project that belong to a campaign: the pruner removes the others. */
    kept: sql`SELECT FROM audiences WHERE project_id = ${projectId} AND abandoned_at IS NULL`.pipe(
      Effect.map(({ length }) => length),
      Effect.orDie
    ),
    /** Applies a project file. */
    apply: (parts: Parts) => apply(projectId, parts),
    /** Makes a draft ready to be scheduled. */
    ready: (id: string) => Effect.andThen(done(id, { operation: "set_primary_route", ...route }), freeze(id)),
    /** Sets a status that otherwise only the runner sets. */
    force: (id: string, status: "running" | "completed") =>
      sql`UPDATE campaigns SET status = ${status} WHERE project_id = ${projectId} AND id = ${id}`.pipe(Effect.orDie)
  }
}

/** The possible routes of the project's campaigns. */
export const route = { templateId: "welcome", templateVersion: 2, channelId: "chat" }
export const otherRoute = { templateId: "reminder", templateVersion: 1, channelId: "backup" }

const referable: Parts = {
  channels: [
    { id: "chat", providerType: "sandbox", displayName: "Chat" },
    { id: "backup", providerType: "sandbox", displayName: "Backup" },
    { id: "gone", providerType: "sandbox", displayName: "Gone", status: "revoked" }
  ],
  templates: [
    { id: "welcome", version: 1, name: "Welcome", body: "Hello" },
    { id: "welcome", version: 2, name: "Welcome", body: "Hello {{firstName}}" },
    { id: "reminder", version: 1, name: "Reminder", body: "Still there?" }
  ],
  clients: [
    { id: "ada", displayName: "Ada", marketingConsent: true, addresses: [{ channelId: "chat", address: "ada" }] },
    { id: "bob", displayName: "Bob" }
  ],
  campaigns: [{ id: "spring", name: "Spring" }]
}

/** Creates a project with the draft `spring`, one eligible client and one that is not. */
export const open = Effect.fnUntraced(function* (parts: Parts = {}) {
  const server = yield* TestServer
  return callsOf(server, yield* server.seed({ ...referable, ...parts }))
})
