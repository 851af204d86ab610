/** An outage: endpoints of which some fail, a campaign under way, and messages of every outcome. */
import { Effect } from "effect"
import { callsOf } from "../contract/Campaigns.support.ts"
import { type Answering, hang, open, receiver } from "../webhooks/delivery/Deliveries.support.ts"
import type { Parts, TestServer } from "../support/TestServer.ts"
import { untilRows } from "../support/Waiting.ts"

const conversation = "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8"

/** The parts of a project with a campaign to three clients. */
export const partsOf = (name: string): Parts => ({
  project: { name },
  channels: [{ id: "chan", providerType: "sandbox", displayName: name }],
  clients: ["cli_a", "cli_b", "cli_c"].map((id) => ({
    id,
    displayName: name,
    marketingConsent: true,
    addresses: [{ channelId: "chan", address: id }]
  })),
  conversations: [{ id: conversation, clientId: "cli_a", channelId: "chan", address: "a" }],
  templates: [{ id: "tpl", version: 1, name, body: "Hello" }],
  campaigns: [
    { id: "cmp", name },
    { id: "cmp_running", name }
  ]
})

/**
 * Starts the campaign, which sends to one recipient a minute, and stores messages of every outcome, the last of which is still
 * repeated.
 */
export const fillMessaging = Effect.fnUntraced(function* (
  server: TestServer["Service"],
  project: { readonly projectId: string; readonly token: string }
) {
  const campaign = callsOf(server, project)
  const of = (operation: string, more = {}) => campaign.done("cmp_running", { operation, ...more })
  yield* of("set_primary_route", { templateId: "tpl", templateVersion: 1, channelId: "chan" })
  yield* campaign.freeze("cmp_running")
  yield* of("schedule", { scheduledForLocal: null, sendsPerMinute: 1 })
  yield* Effect.orDie(server.sql`
    INSERT INTO messages (project_id, id, conversation_id, channel_id, provider_type, address, text, status, attempts,
      attempting, attempt_log, available_at, traceparent, created_at, updated_at)
    SELECT ${project.projectId}, 'msg_reply_' || n, ${conversation}, 'chan', 'telegram', 'a', 'Text', status, 1, status = 'pending',
      jsonb_build_array(jsonb_build_object('number', 1, 'status', attempt, 'startedAt', at, 'finishedAt', at,
        'providerMessageId', CASE WHEN status = 'sent' THEN '8812' END, 'errorCode', error, 'nextAttemptAt', NULL)),
      CASE WHEN error = 'http_503' OR status = 'pending' THEN now() + interval '1 hour' END,
      '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', now(), now()
    FROM (SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS at) time, (VALUES
      (1, 'unknown', 'unknown', 'timeout'), (2, 'unknown', 'unknown', 'timeout'), (3, 'sent', 'accepted', NULL),
      (4, 'failed', 'rejected', 'http_403'), (5, 'retrying', 'retrying', 'http_503'), (6, 'pending', 'pending', NULL),
      (7, 'unknown', 'retrying', 'http_503')
    ) AS message (n, status, attempt, error)`)
  yield* untilRows(
    Effect.orDie(server.sql<{ readonly status: string }>`
      SELECT status FROM campaign_recipients WHERE project_id = ${project.projectId} AND status = 'sent'`),
    (rows) => rows.length === 1
  )
  // The others wait for longer than any test takes.
  yield* Effect.orDie(server.sql`
    UPDATE campaigns SET next_send_at = now() + interval '1 hour' WHERE project_id = ${project.projectId} AND id = 'cmp_running'`)
})

const created = "crm.deal.created.v1"

/** The installations: two work, three answer 500, one does not answer. */
const installations = ["one", "two", "three", "four", "five", "six"]

/** The body of the endpoints that answer 500. */
export const answer = `{"error":"No connection to the database: too many clients"}`

const broken: Answering = ({ response }) => void response.writeHead(500).end(answer)

/** Makes an outage and stops it in the middle: what fails is parked for an hour, and nothing is in flight. */
export const makeOutage = Effect.fnUntraced(function* (server: TestServer["Service"]) {
  const [well, failing, hanging] = [yield* receiver(), yield* receiver(broken), yield* receiver(hang)]
  const project = yield* open(server, installations, partsOf("Harbour Wines"))
  for (const [index, { url }] of [well, well, failing, failing, failing, hanging].entries()) {
    yield* project.subscribe(installations[index] ?? "", url, [created])
  }
  yield* fillMessaging(server, project)
  for (let n = 0; n < 4; n++) yield* project.created()
  // Ten failures in a row park an endpoint.
  yield* untilRows(project.health("three"), ({ parkedUntil }) => parkedUntil !== null)
  yield* untilRows(project.deliveries("six"), (rows) => rows.some(({ status }) => status === "dead"))
  yield* Effect.orDie(
    server.sql`UPDATE endpoint_health SET parked_until = now() + interval '1 hour' WHERE failures > 0`
  )
  yield* untilRows(
    Effect.orDie(server.sql`SELECT FROM deliveries WHERE status = 'delivering'`),
    (rows) => rows.length === 0
  )
  // What is created now waits for the endpoints that are parked.
  for (let n = 0; n < 3; n++) yield* project.created()
  yield* untilRows(
    project.deliveries("two"),
    (rows) => rows.filter(({ status }) => status === "delivered").length === 7
  )
  yield* untilRows(
    project.deliveries("one"),
    (rows) => rows.filter(({ status }) => status === "delivered").length === 7
  )
  return project
})
