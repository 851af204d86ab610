/** Uses every part of the service once, so that each of its statements is sent. */
import { Duration, Effect } from "effect"
import { eventTypes } from "../../src/api/integrations/Events.ts"
import { demoText } from "../support/Projects.ts"
import { run } from "../cli/Cli.support.ts"
import { newKey, referring, requestOf } from "../contract/Requests.ts"
import { missingOf, type Sample } from "../contract/Sample.ts"
import { samples, World } from "../contract/Samples.ts"
import { answerOf, endpoint } from "../support/Endpoints.ts"
import { secretKey, TestServer } from "../support/TestServer.ts"

const api = "/api/v1/developer"

/** Queries of lists, one for each different statement. */
const queries = [
  "crm/clients?",
  "crm/clients?status=active&",
  "crm/clients?externalId=crm-1815&",
  "crm/clients?email=ada@example.com&",
  "crm/clients?phone=%2B442071838750&status=active&",
  "crm/clients?email=ada@example.com&updatedSince=2026-01-01T00:00:00Z&",
  "crm/clients?updatedSince=2026-01-01T00:00:00Z&",
  "crm/clients?status=active&updatedSince=2026-01-01T00:00:00Z&",
  "crm/deals?",
  "crm/deals?lifecycle=all&",
  "crm/deals?lifecycle=all&status=open&",
  "crm/deals?status=open&",
  "crm/deals?externalId=order-1042&lifecycle=all&",
  "crm/deals?clientId=cli_own&",
  "crm/deals?stageId=stage_own&lifecycle=all&status=open&",
  "crm/deals?clientId=cli_own&stageId=stage_own&",
  "crm/deals?updatedSince=2026-01-01T00:00:00Z&",
  "crm/deals?clientId=cli_own&updatedSince=2026-01-01T00:00:00Z&",
  "crm/deals?stageId=stage_own&status=open&updatedSince=2026-01-01T00:00:00Z&",
  "crm/deals/deal_own/notes?",
  "crm/pipelines?",
  "crm/members?",
  "crm/organizations?",
  "crm/tickets?",
  "crm/tickets?status=resolved&",
  "crm/tickets?clientId=cli_own&",
  "crm/tickets?status=resolved&clientId=cli_own&",
  "messaging/conversations?",
  "messaging/conversations?clientId=cli_own&",
  "messaging/conversations?sourceId=src_own&",
  "messaging/conversations?clientId=cli_own&sourceId=src_own&",
  "campaigns/templates?",
  "messaging/sources?",
  "integrations?",
  "integrations/ins_own/outbound-webhook/deliveries?",
  "integrations/ins_own/outbound-webhook/deliveries?status=dead&",
  "integrations/ins_own/outbound-webhook/deliveries?eventType=crm.task.created.v1&",
  "integrations/ins_own/outbound-webhook/deliveries?status=dead&eventType=crm.task.created.v1&",
  "campaigns?",
  "campaigns?status=draft&",
  "campaigns/audience-segments?"
]

/** One command of each kind, in an order in which all of them succeed. */
const campaignCommands = [
  { operation: "rename", name: "Renamed", expectedVersion: 1 },
  { operation: "bind_template", templateId: "tpl_own", templateVersion: 1 },
  { operation: "bind_sender", channelId: "chan_own" },
  { operation: "set_primary_route", templateId: "tpl_own", templateVersion: 1, channelId: "chan_own" },
  { operation: "set_fallback_route", templateId: "tpl_own", templateVersion: 1, channelId: "chan_own" },
  { operation: "remove_fallback_route" },
  { operation: "freeze_audience", filter: { contactStatus: "all", providerTypes: [], requiredTags: [], stageIds: [] } },
  { operation: "duplicate" },
  { operation: "schedule", scheduledForLocal: null, sendsPerMinute: 6000 },
  { operation: "pause" },
  { operation: "resume" }
]

export const walk = Effect.gen(function* () {
  const server = yield* TestServer
  const { apply, databaseUrl, send, sendBytes } = server
  const { own, restore, seed } = yield* World
  const json = (method: string, path: string, body?: object, token = own.token) =>
    send({ method, path: `${api}/${path}`, token, key: newKey(), ...(body === undefined ? {} : { json: body }) })
  const command = (...args: ReadonlyArray<string>) =>
    run([...args, "--json"], { env: { DATABASE_URL: databaseUrl, SECRET_KEY: secretKey } })

  /** Sends a first request, its replay, many requests concurrently, and one with references to missing records. */
  const ask = Effect.fnUntraced(function* (sample: Sample) {
    const key = newKey()
    yield* restore(sample, own.projectId)
    for (const repeated of [key, key]) yield* send(requestOf(sample, own.token, { key: repeated }))
    yield* Effect.forEach(Array.from({ length: 24 }, newKey), (key) => send(requestOf(sample, own.token, { key })), {
      concurrency: "unbounded"
    })
    yield* send(requestOf(sample, own.token, referring(sample, sample.references ?? [], missingOf)))
  })
  for (const sample of Object.values(samples)) yield* ask(sample)
  // Again with subscribers, once their credential tells of them: then commands append events.
  yield* server.sql`UPDATE webhooks SET event_types = ${eventTypes} WHERE project_id = ${own.projectId}`
  yield* Effect.sleep(Duration.seconds(1))
  for (const [name, sample] of Object.entries(samples))
    if (/^(create|patch)(Client|Deal)$/.test(name)) yield* ask(sample)
  for (const kind of ["clients", "deals"]) {
    const body = kind === "clients" ? { displayName: "A" } : { title: "A" }
    const upsert = (name: string) => json("PUT", `crm/${kind}/by-external-id/${name}`, body)
    yield* Effect.forEach(["a", "b", "c"], upsert, { concurrency: "unbounded" })
  }

  yield* apply(own.projectId, {
    pipelines: [{ id: "pipe_two", name: "Two", stages: [{ id: "stage_two", name: "Two" }] }],
    campaigns: [{ id: "cmp_two", name: "Two" }],
    templates: [{ id: "tpl_own", version: 2, name: "Two", body: "Hello" }]
  })
  yield* server.sql`
    INSERT INTO deliveries (project_id, id, installation_id, event_id, status, created_at, finished_at)
    SELECT project_id, 'dlv_two', installation_id, event_id, status, created_at, finished_at
    FROM deliveries WHERE project_id = ${own.projectId} AND id = 'dlv_own'`
  for (const query of queries) {
    const first = yield* send({ path: `${api}/${query}limit=1`, token: own.token })
    const cursor = /"nextCursor":"([^"]+)"/.exec(first.text)?.[1]
    if (cursor !== undefined) yield* send({ path: `${api}/${query}limit=1&cursor=${cursor}`, token: own.token })
  }

  // Requests that arrive together on one connection are looked up together.
  const webhook = "integrations/ins_own/outbound-webhook"
  const message = "messaging/conversations/0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8/messages/msg_own"
  for (const path of ["crm/deals/deal_own", "campaigns/cmp_own", message, webhook, `${webhook}/deliveries/dlv_own`]) {
    const lookup = `GET ${api}/${path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${own.token}\r\n`
    yield* sendBytes(`${`${lookup}\r\n`.repeat(4)}${lookup}connection: close\r\n\r\n`)
  }

  // References to records that exist, a stage that is removed, a profile that is removed.
  yield* apply(own.projectId, {
    tickets: [{ id: "tic_other", subject: "Other", status: "open", clientId: "cli_own" }],
    installations: [{ id: "ins_staged", name: "Staged", importProfile: null }]
  })
  const stages = (...ids: ReadonlyArray<string>) => ({
    pipelines: [{ id: "pipe_short", name: "Short", stages: ids.map((id) => ({ id, name: id })) }]
  })
  yield* apply(own.projectId, stages("stage_kept", "stage_removed"))
  yield* apply(own.projectId, stages("stage_kept"))

  const { projectId, token } = yield* seed()
  for (const body of campaignCommands) yield* json("PATCH", "campaigns/cmp_own", body, token)
  yield* apply(projectId, { campaigns: [{ id: "cmp_gone", name: "Gone" }] })
  yield* json("PATCH", "campaigns/cmp_gone", { operation: "delete", expectedVersion: 1 }, token)

  // An endpoint that answers 204, one that answers 500, and one that answers 410.
  const statuses: Readonly<Record<string, number>> = { ins_own: 204, ins_new: 500, ins_staged: 410 }
  for (const [installation, status] of Object.entries(statuses)) {
    const { port } = yield* endpoint(({ socket }) => socket.write(answerOf(status)))
    yield* json("PUT", `integrations/${installation}/outbound-webhook`, {
      endpointUrl: `http://127.0.0.1:${port}/`,
      eventTypes: ["crm.deal.created.v1", "crm.task.created.v1"],
      expectedVersion: installation === "ins_own" ? 1 : null
    })
  }
  yield* json("POST", "crm/deals", { title: "Announced" })
  yield* json("POST", "integrations/ins_own/outbound-webhook/test")

  for (const stdin of [demoText, demoText.replace("A second grinder", "A third grinder")]) {
    yield* run(["project", "apply", "-"], { stdin, env: { DATABASE_URL: databaseUrl, SECRET_KEY: secretKey } })
  }
  const issued = yield* command("token", "issue", "--project", "demo", "--name", "sql", "--scope", "all")
  const keyId: unknown = JSON.parse(issued.stdout).keyId
  yield* command("project", "export", "--project", "demo")
  yield* command("token", "list", "--project", "demo", "--before", String(keyId))
  yield* command("token", "rotate", "--key", String(keyId))
  yield* command("token", "revoke", "--key", String(keyId))
  const task = yield* command("task", "create", "--project", own.projectId, "--title", "Call", "--deal", "deal_own")
  yield* command("task", "complete", "--project", own.projectId, "--task", String(JSON.parse(task.stdout).taskId))
  yield* command("deliveries", "list", "--project", own.projectId)
  for (const status of ["dead", "pending"])
    yield* command("deliveries", "list", "--project", own.projectId, "--status", status, "--before", "dlv_z")
  yield* command("deliveries", "show", "--project", own.projectId, "--delivery", "dlv_own")
  yield* command("deliveries", "list", "--project", own.projectId, "--installation", "ins_own")
  const messages = yield* command("messages", "list", "--project", own.projectId)
  const before: unknown = JSON.parse(messages.stdout).items[0].messageId
  for (const flags of [[], ["--status", "unknown"]])
    yield* command("messages", "list", "--project", own.projectId, "--before", String(before), ...flags)
  yield* command("messages", "settle", "--project", own.projectId, "--message", "msg_none", "--as", "sent")

  // Waits for the background fibers: deliveries, retries, campaigns, pruning. Deliveries fail throughout, so that their webhook
  // is disabled.
  for (let round = 0; round < 8; round++) {
    yield* json("POST", "crm/deals", { title: `Announced ${round}` })
    yield* Effect.sleep(Duration.millis(500))
  }
})
