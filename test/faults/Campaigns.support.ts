/** Campaigns over each kind of provider to the same clients, and the states of their recipients in the database. */
import { Schema } from "effect"
import { randomBytes } from "node:crypto"
import { assert } from "@effect/vitest"
import { launchService } from "../support/Process.ts"
import { untilSessionsEnd, project, serviceEnv, startHere } from "./Projects.support.ts"
import { channelsOf, type Kind, kinds, startProvider } from "./Providers.support.ts"
import { bearer, send } from "./Requests.support.ts"
import { lastingSession } from "./Shop.support.ts"

const decodeRecipients = Schema.decodeUnknownSync(
  Schema.Array(Schema.Struct({ campaign: Schema.String, client: Schema.String, status: Schema.String }))
)

export type Scene = Awaited<ReturnType<typeof openCampaigns>>

/** Opens a project with a campaign for each kind of provider, frozen through the API, to `size` clients. */
export const openCampaigns = async (databaseUrl: string, size: number) => {
  const provider = await startProvider()
  const id = `p-${randomBytes(6).toString("hex")}`
  const clients = Array.from({ length: size }, (_, n) => `client-${n}`)
  const token = await project(databaseUrl, {
    project: { id },
    channels: channelsOf(provider),
    clients: clients.map((client) => ({
      id: client,
      displayName: client,
      marketingConsent: true,
      addresses: kinds.map((channelId) => ({ channelId, address: `${channelId}-${client}` }))
    })),
    templates: kinds.map((kind) => ({ id: kind, version: 1, name: kind, body: `${kind} to {{displayName}}` })),
    campaigns: kinds.map((kind) => ({ id: kind, name: kind }))
  })
  const api = await startHere(databaseUrl)
  const query = await lastingSession(databaseUrl)
  const command = async (campaign: Kind, json: object) => {
    const answer = await send(`${api.url}/api/v1/developer/campaigns/${campaign}`, {
      method: "PATCH",
      headers: { ...bearer(token), "idempotency-key": randomBytes(8).toString("hex") },
      json
    })
    assert.strictEqual(answer.status, 200, answer.text)
  }
  for (const kind of kinds) {
    await command(kind, { operation: "set_primary_route", templateId: kind, templateVersion: 1, channelId: kind })
    const filter = { contactStatus: "active", providerTypes: [kind], requiredTags: [], stageIds: [] }
    await command(kind, { operation: "freeze_audience", filter })
  }
  const count = async (what: string) => Number((await query(`SELECT count(*) FROM ${what}`))[0]?.["count"])
  const recipients = `campaigns JOIN campaign_recipients AS recipient USING (project_id, audience_id)
    WHERE project_id = '${id}'`
  return {
    provider,
    clients,
    /** Starts both campaigns, each at `sendsPerMinute`. */
    begin: async (sendsPerMinute: number) => {
      for (const kind of kinds) await command(kind, { operation: "schedule", scheduledForLocal: null, sendsPerMinute })
    },
    /** Counts the recipients that are not settled. */
    open: () => count(`${recipients} AND recipient.status IN ('pending', 'sending')`),
    running: () => count(`campaigns WHERE project_id = '${id}' AND status <> 'completed'`),
    /** Returns the state of each recipient of a campaign. */
    recipients: async (kind: Kind) =>
      decodeRecipients(
        await query(`
          SELECT campaigns.id AS campaign, client_id AS client, recipient.status FROM ${recipients} ORDER BY 1, position`)
      ).filter(({ campaign }) => campaign === kind),
    /** Waits until the statements of killed runners have finished, and ends their leases. */
    endLeases: async () => {
      await untilSessionsEnd(query, "developer-api background")
      await query(
        `UPDATE messages SET available_at = now() - interval '1 ms' WHERE project_id = '${id}' AND attempting`
      )
    },
    /** Returns the calls that the provider has received for a client. */
    entry: (client: string, kind: Kind) => provider.entry(`${kind} to ${client}`, kind)
  }
}

/** Starts a runner without waiting for readiness. Its leases outlast the test unless the test ends them. */
export const launchRunner = (databaseUrl: string) =>
  launchService({ args: ["--role", "worker"], env: { ...serviceEnv(databaseUrl), PROVIDER_TIMEOUT: "60s" } })
