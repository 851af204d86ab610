/** Runs everything that operators can do once: every page and action of the console, and their commands. */
import { assert } from "@effect/vitest"
import { Effect, Schema } from "effect"
import type { ActionName } from "../../src/operators/Actions.ts"
import { documentOf, run } from "../cli/Cli.support.ts"
import { type Console, type FilledProject, fillProject, pagesOf, sessionOf } from "../console/Console.support.ts"
import { type Hit, open, receiver, status } from "../webhooks/delivery/Deliveries.support.ts"
import { copyEvent } from "../support/Events.ts"
import { holding } from "../support/Locks.ts"
import { secretKey } from "../support/TestServer.ts"
import { until, untilRows } from "../support/Waiting.ts"

const always = { since: "2026-01-01T00:00:00Z", until: "2099-01-01T00:00:00Z" }

const decodeReplay = Schema.decodeUnknownEffect(Schema.Struct({ replayId: Schema.String }))

/** Returns the last replay of a project. */
const latestReplay = ({ projectId, sql }: FilledProject) =>
  sql<{ id: string; state: string }>`
    SELECT id, state FROM replays WHERE project_id = ${projectId} ORDER BY created_at DESC, id DESC LIMIT 1`.pipe(
    Effect.orDie
  )

const untilReplay = (project: FilledProject, state: string) =>
  untilRows(latestReplay(project), ([replay]) => replay?.state === state)

/** Returns a form for each action, in the order in which they are sent. */
const formsOf = (
  { dead }: FilledProject,
  replay: string,
  key: string
): Readonly<Record<ActionName, Record<string, string>>> => ({
  "replay.cancel": { replay, confirmed: "yes" },
  "key.revoke": { key, confirmed: "yes" },
  // Before the test ends the rest of the endpoint, after which a replay may deliver it.
  "delivery.retry": { delivery: dead.id },
  "webhook.test": { installation: "shop" },
  "webhook.disable": { installation: "shop" },
  "webhook.enable": { installation: "shop" },
  "replay.start": { installation: "shop", ...always, status: "all", type: "" },
  "message.settle": { message: "msg_reply_1", as: "sent" },
  "message.show": { message: "msg_reply_1" },
  "campaign.pause": { campaign: "cmp_running", confirmed: "yes" },
  "campaign.resume": { campaign: "cmp_running" },
  "campaign.retry_failed": { campaign: "cmp_running", confirmed: "yes" },
  "campaign.cancel": { campaign: "cmp_running" }
})

/** Opens every page of the console, and sends every form. */
const browse = Effect.fnUntraced(function* (server: Console, project: FilledProject, replay: string) {
  const { get, post } = yield* sessionOf(server, project.projectId)
  const of = `project=${project.projectId}`
  const records = yield* server.sql<{ kind: string; id: string }>`
    SELECT 'event' AS kind, min(id) AS id FROM events WHERE project_id = ${project.projectId}
    UNION ALL SELECT 'deal', min(id) FROM deals WHERE project_id = ${project.projectId}
    UNION ALL SELECT 'request', min(request_id) FROM idempotency_keys WHERE project_id = ${project.projectId}
    UNION ALL SELECT 'key', min(key_id) FROM idempotency_keys WHERE project_id = ${project.projectId}`.pipe(
    Effect.orDie
  )
  const key = yield* server.issue(project.projectId)
  const pages = [
    ...pagesOf(project),
    `/console/deliveries?${of}&cursor=${project.dead.id}`,
    `/console/campaigns?${of}&cursor=cmp`,
    ...records.map(({ id, kind }) => `/console/history?${of}&kind=${kind}&id=${id}`)
  ]
  for (const path of pages) assert.strictEqual((yield* get(path)).status, 200, path)
  for (const [name, fields] of Object.entries(formsOf(project, replay, key.slice(3, 15)))) {
    const { status, text } = yield* post(name, fields)
    assert.isBelow(status, 400, `${name}: ${text}`)
  }
  // The process counts it, and writes the count when it ends.
  yield* server.send({ path: "/api/v1/developer/crm/clients", token: key })
  yield* post("sign-out")
})

/** Has a delivery answered while another transaction has locked its row, and waits until the statement of the result has given up. */
const recordBesideLock = Effect.fnUntraced(function* (server: Console) {
  const held: Array<Hit> = []
  const slow = yield* receiver((hit) => void held.push(hit))
  const project = yield* open(server)
  const { projectId, sql } = project
  yield* project.subscribe("shop", slow.url)
  yield* project.created()
  yield* until(() => held.length === 1)
  const { release } = yield* holding(sql, sql`SELECT FROM deliveries WHERE project_id = ${projectId} FOR UPDATE`)
  for (const hit of held) status(200)(hit, 0)
  const waits = Effect.orDie(sql`
    SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
  for (const count of [1, 0]) yield* untilRows(waits, (rows) => rows.length === count)
  yield* release
  yield* project.finished
})

export const operate = Effect.fnUntraced(function* (server: Console) {
  const { databaseUrl, sql } = server
  const env = { DATABASE_URL: databaseUrl, SECRET_KEY: secretKey }
  const command = (...args: ReadonlyArray<string>) => Effect.map(run([...args, "--json"], { env }), documentOf)

  const project = yield* fillProject(server)
  const { dead, projectId } = project
  const of = ["--project", projectId]
  const shop = [...of, "--installation", "shop"]
  /** Starts a replay of all deliveries of a project; returns its id. */
  const replay = (id: string) => {
    const range = ["--since", always.since, "--until", always.until, "--status", "all"]
    return command("deliveries", "replay", "--project", id, "--installation", "shop", ...range).pipe(
      Effect.flatMap(decodeReplay),
      Effect.map(({ replayId }) => replayId)
    )
  }

  yield* command("project", "list")
  yield* command("deliveries", "retry", ...of, "--delivery", dead.id)
  yield* project.finished
  yield* command("webhooks", "list", ...of)
  // The address is refused, so the test fails once it is recorded.
  yield* run(["webhooks", "test", ...shop, "--json"], { env })
  for (const action of ["disable", "enable"]) yield* command("webhooks", action, ...shop)
  yield* replay(projectId)
  yield* untilReplay(project, "completed")
  for (const flags of [[], ["--before", "rpl_z"]]) yield* command("deliveries", "replays", ...of, ...flags)
  // A replay of more than it may have open for an endpoint that rests can be cancelled at any time.
  const rest = Effect.fnUntraced(function* ({ projectId, setHealth }: FilledProject) {
    yield* setHealth("resting_until = now() + interval '1 hour'")
    yield* copyEvent(sql, projectId, 30)
  })
  yield* rest(project)
  yield* command("deliveries", "cancel-replay", ...of, "--replay", yield* replay(projectId))
  yield* untilReplay(project, "cancelled")
  yield* replay(projectId)
  yield* command("webhooks", "disable", ...shop)
  yield* untilReplay(project, "cancelled")
  for (const flags of [[], ["--before", "aud_z"]]) {
    for (const project of [of, []]) yield* command("audit", "list", ...project, ...flags)
  }

  const shown = yield* fillProject(server)
  yield* rest(shown)
  const running = yield* replay(shown.projectId)
  yield* untilRows(shown.deliveries(), (rows) => rows.some(({ status }) => status === "pending"))
  yield* browse(server, shown, running)

  yield* recordBesideLock(server)

  // The state that an interrupted deletion leaves: the command continues it.
  yield* sql`UPDATE projects SET deleted_at = now() WHERE project_id = ${projectId}`.pipe(Effect.orDie)
  yield* command("project", "delete", ...of, "--confirm", projectId)

  // Reseals the secrets with another key and back, because the service still has the first key.
  const otherKey = Buffer.alloc(32, 8).toString("base64")
  for (const [key, previous] of [
    [otherKey, secretKey],
    [secretKey, otherKey]
  ] as const) {
    yield* run(["secrets", "reseal"], { env: { ...env, SECRET_KEY: key, SECRET_KEY_PREVIOUS: previous } })
  }
  yield* run(["cells", "map"], { env: { ...env, CELL: "01" } })
  // The findings depend on the walk. The statement about a pooler also needs a direct address.
  yield* run(["doctor"], { env: { ...env, DATABASE_DIRECT_URL: databaseUrl } })
  yield* run(["migrate", "--restored"], { env })
})
