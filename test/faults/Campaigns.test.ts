/** Campaigns whose runner is killed repeatedly, and PostgreSQL sometimes: each recipient is sent to once (contract §9). */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import { randomBytes } from "node:crypto"
import { beforeAll, describe, it } from "vitest"
import { launchService } from "../support/Process.ts"
import { untilNoneLeft } from "../support/UntilNoneLeft.ts"
import { eventually } from "../support/Waiting.ts"
import { startCluster } from "./Cluster.support.ts"
import { project, serviceEnv, startHere, untilSessionsEnd } from "./Projects.support.ts"
import {
  accept,
  acceptSilently,
  type Answering,
  channelsOf,
  ignore,
  type Kind,
  kinds,
  startProvider
} from "./Providers.support.ts"
import { bearer, send } from "./Requests.support.ts"
import { lastingSession } from "./Shop.support.ts"

const decodeRecipients = Schema.decodeUnknownSync(
  Schema.Array(Schema.Struct({ campaign: Schema.String, client: Schema.String, status: Schema.String }))
)

type Scene = Awaited<ReturnType<typeof openCampaigns>>

/** Opens a project with a campaign for each kind of provider, frozen through the API, to `size` clients. */
const openCampaigns = async (databaseUrl: string, size: number) => {
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
const launchRunner = (databaseUrl: string) =>
  launchService({ args: ["--role", "worker"], env: { ...serviceEnv(databaseUrl), PROVIDER_TIMEOUT: "60s" } })

const size = 250
/** A kill costs a campaign at most the calls before it, the recipients claimed ahead (0.3 s), and the calls during it. */
const sendsPerMinute = 2_400
const callsBetween = 15

/** What the provider does with the last call of a runner: ignores, accepts without an answer, or accepts it. */
const lastCalls: ReadonlyArray<Answering> = [ignore, acceptSilently, accept]
/** Both kinds of provider take turns; every fifth kill includes PostgreSQL. */
const kills = Array.from({ length: 6 }, (_, n) => ({
  kind: kinds[n % kinds.length],
  lastCall: lastCalls[n % lastCalls.length] ?? accept,
  ofPostgres: n % 3 === 2
}))

let scene: Scene

beforeAll(async () => {
  const cluster = await startCluster()
  const { url } = cluster
  scene = await openCampaigns(url, size)
  await scene.begin(sendsPerMinute)
  for (const { kind, lastCall, ofPostgres } of kills) {
    let calls = 0
    let stopped: Promise<void> | undefined
    const runner = launchRunner(url)
    scene.provider.answerWith((call) => {
      if (call.kind === kind) calls++
      if (calls < callsBetween) return accept(call)
      // Calls after the last one are not counted.
      scene.provider.answerWith(ignore)
      lastCall(call)
      if (ofPostgres) stopped = cluster.kill()
      runner.kill("SIGKILL")
    })
    await eventually(() => assert.isTrue(runner.hasExited()))
    await stopped?.then(cluster.start)
    await scene.endLeases()
  }
  scene.provider.answerWith(accept)
  launchRunner(url)
  await untilNoneLeft(scene.open)
  await eventually(async () => assert.strictEqual(await scene.running(), 0))
}, 300_000)

describe("a campaign of 250 recipients whose runner is killed six times", () => {
  it("sends each message once under one key to a provider with idempotency keys", async () => {
    const recipients = await scene.recipients("http")
    assert.deepStrictEqual(recipients.map(({ client }) => client).sort(), [...scene.clients].sort())
    assert.deepStrictEqual(
      recipients.filter(({ status }) => status !== "sent"),
      []
    )
    const entries = scene.clients.map((client) => scene.entry(client, "http"))
    assert.deepStrictEqual(
      entries.filter(({ keys, taken }) => keys.length !== 1 || taken.length !== 1),
      []
    )
    assert.strictEqual(new Set(entries.flatMap(({ keys }) => keys)).size, size)
    // Otherwise no runner was killed during a call.
    assert.isTrue(entries.some(({ calls }) => calls > 1))
  })

  it("calls a provider without idempotency keys at most once for each recipient", async () => {
    const recipients = await scene.recipients("telegram")
    assert.deepStrictEqual(recipients.map(({ client }) => client).sort(), [...scene.clients].sort())
    const entries = recipients.map(({ client, status }) => ({ status, ...scene.entry(client, "telegram") }))
    assert.deepStrictEqual(
      entries.filter(({ calls }) => calls > 1),
      []
    )
    assert.deepStrictEqual(
      entries.filter(({ status, taken }) => status === "sent" && taken.length !== 1),
      []
    )
    assert.deepStrictEqual(
      entries.filter(({ status }) => status !== "sent" && status !== "unknown"),
      []
    )
    // Unknown outcomes are left to an operator. They include the calls of killed runners.
    const unanswered = kills.filter(({ kind, lastCall }) => kind === "telegram" && lastCall !== accept)
    assert.isAtLeast(
      entries.filter(({ calls, status }) => status === "unknown" && calls === 1).length,
      unanswered.length
    )
    assert.isAbove(entries.filter(({ status }) => status === "sent").length, 0)
  })
})
