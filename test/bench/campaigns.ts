/** `bench campaigns`: duration of a campaign alone, and while campaigns of other projects call a provider that hangs. */
import type { PgClient } from "@effect/sql-pg"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { randomBytes } from "node:crypto"
import { createServer, type ServerResponse } from "node:http"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { json } from "../../src/cli/Flags.ts"
import { answer } from "../../src/cli/Output.ts"
import { until } from "./deliveries/Endpoints.ts"
import { type Comparison, document, text } from "./deliveries/Report.ts"
import { takeTurns } from "./deliveries/Turns.ts"
import { count, type Findings, progress } from "./Options.ts"
import { connect, database, openProject, service, start } from "./Stage.ts"

export interface Options {
  readonly rounds: number
  /** Sends of the measured campaign. */
  readonly sends: number
  /** Number of projects whose campaigns call the provider that hangs. */
  readonly hanging: number
}

export const usual: Options = { rounds: 3, sends: 100, hanging: 10 }

/** Recipients of each campaign whose provider hangs. */
const stuckSends = 200
/** Limit of the measured campaign: 100 sends take at least a second. */
const sendsPerMinute = 6_000

interface Provider {
  readonly url: string
  readonly calls: () => number
}

/** Starts a provider of the http connector that accepts every message, or never answers. */
export const makeProvider = (hangs: boolean) =>
  Effect.acquireRelease(
    Effect.callback<Provider & { readonly close: () => void }>((resume) => {
      let calls = 0
      const accept = (response: ServerResponse) =>
        response.writeHead(200, { "content-type": "application/json" }).end(`{"providerMessageId":"p${calls}"}`)
      const server = createServer((request, response) => {
        calls++
        request.resume()
        if (!hangs) request.on("end", () => accept(response))
      }).listen(0, "127.0.0.1", () => {
        const address = server.address()
        const port = typeof address === "object" && address !== null ? address.port : 0
        const close = () => {
          server.closeAllConnections()
          server.close()
        }
        resume(Effect.succeed({ url: `http://127.0.0.1:${port}/`, calls: () => calls, close }))
      })
    }),
    ({ close }) => Effect.sync(close)
  )

export const signingSecret = `whsec_${randomBytes(32).toString("base64")}`

/** Creates a project with as many clients as the campaign has recipients, and the campaign. */
export const runCampaign = Effect.fnUntraced(function* (
  sql: PgClient.PgClient,
  id: string,
  plan: {
    readonly url: string
    readonly sends: number
    readonly sendsPerMinute: number
    /** The default is `running`. */
    readonly status?: "paused"
  }
) {
  const projectId = ProjectId.make(id)
  yield* openProject(sql, {
    project: { id: projectId, name: id },
    channels: [{ id: "chat", providerType: "http", displayName: "Chat", config: { url: plan.url, signingSecret } }],
    clients: Array.from({ length: plan.sends }, (_, n) => ({
      id: `cli_${n}`,
      displayName: `Ada Lovelace ${n}`,
      marketingConsent: true,
      addresses: [{ channelId: "chat", address: `ada-${n}` }]
    }))
  })
  yield* sql`
    WITH template AS (
      INSERT INTO templates (project_id, id, version, name, body) VALUES (${projectId}, 'tpl', 1, 'Spring', 'Hello')
    ),
    audience AS (
      INSERT INTO audiences (project_id, id, filter, candidate_count, eligible_count, merged, filter_mismatch,
        consent_not_granted, suppressed, channel_unavailable, duplicate, created_at)
      VALUES (${projectId}, 'aud', '{}', ${plan.sends}, ${plan.sends}, 0, 0, 0, 0, 0, 0, now())
    ),
    recipient AS (
      INSERT INTO campaign_recipients (project_id, audience_id, position, client_id)
      SELECT ${projectId}, 'aud', row_number() OVER (ORDER BY id) - 1, id FROM clients WHERE project_id = ${projectId}
    )
    INSERT INTO campaigns (project_id, id, name, status, primary_template_id, primary_template_version,
      primary_channel_id, audience_id, scheduled_for, sends_per_minute, created_at, updated_at, paused_from)
    VALUES (${projectId}, 'spring', 'Spring', ${plan.status ?? "running"}, 'tpl', 1, 'chat', 'aud', now(), ${plan.sendsPerMinute}, now(), now(),
      ${plan.status === undefined ? null : "running"}::text)`
  return projectId
})

/** Measures one campaign in seconds, from its start to its last send. */
const measureOne = Effect.fnUntraced(function* (sql: PgClient.PgClient, id: string, sends: number) {
  const { calls, url } = yield* makeProvider(false)
  yield* runCampaign(sql, id, { url, sends, sendsPerMinute })
  const from = Date.now()
  yield* until(`${id} is not sent`, Effect.sync(calls), (made) => made >= sends)
  return { sendSeconds: (Date.now() - from) / 1_000 }
}, Effect.scoped)

const alone = "alone"

export const measure = Effect.fnUntraced(function* ({ hanging, rounds, sends }: Options) {
  yield* progress("starting PostgreSQL and the service")
  const url = yield* database({})
  const sql = yield* connect(url)
  yield* openProject(sql, { project: { id: ProjectId.make("first"), name: "First" } })
  yield* start(service("ours"), url, { WEBHOOK_ALLOWED_NETWORKS: "127.0.0.0/8" })

  let n = 0
  const beside = `beside ${hanging} that hang`
  const runAlone = Effect.suspend(() => measureOne(sql, `alone_${++n}`, sends))
  /** Measures a campaign while the others hang, from before its start until its last send. */
  const runBeside = Effect.gen(function* () {
    const round = ++n
    const stuck = yield* makeProvider(true)
    for (let i = 0; i < hanging; i++) {
      yield* runCampaign(sql, `stuck_${round}_${i}`, { url: stuck.url, sends: stuckSends, sendsPerMinute: 60_000 })
    }
    yield* until("the provider is not called", Effect.sync(stuck.calls), (calls) => calls >= 2 * hanging)
    const measured = yield* measureOne(sql, `beside_${round}`, sends)
    yield* sql`UPDATE campaigns SET status = 'cancelled' WHERE status = 'running'`
    return measured
  }).pipe(Effect.scoped)
  const runs = [
    { name: alone, run: runAlone },
    { name: beside, run: runBeside }
  ]
  yield* runAlone
  const comparison: Comparison = {
    title: "campaigns",
    names: [alone, beside],
    ratios: [[beside, alone]],
    rounds: yield* takeTurns("campaigns", runs, rounds, ({ run }) => run)
  }
  const findings: Findings = {
    document: { settings: { hanging, rounds, sends, node: process.version }, ...document(comparison) },
    text: text(comparison)
  }
  return findings
}, Effect.scoped)

export const command = Command.make(
  "campaigns",
  {
    json,
    rounds: count("rounds", usual.rounds, "Rounds, each beside the others and alone"),
    sends: count("sends", usual.sends, "Sends of the campaign that is measured"),
    hanging: count("hanging", usual.hanging, "Projects whose campaigns call a provider that hangs")
  },
  Effect.fnUntraced(function* ({ json, ...options }) {
    const { document, text } = yield* measure(options)
    yield* answer(json, document, text)
  })
).pipe(Command.withDescription("How long a campaign takes while the provider of other projects hangs"))
