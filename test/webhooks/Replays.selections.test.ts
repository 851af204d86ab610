/** What a replay selects: each selected event is repeated exactly once, in steps that leave few deliveries open. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { type EventType } from "../../src/api/integrations/Events.ts"
import { type ReplayFilter } from "../../src/api/integrations/Replays.ts"
import { InstallationId, ProjectId } from "../../src/api/schema/Ids.ts"
import { firstIdAt } from "../../src/platform/Ids.ts"
import { retentionDays } from "../../src/webhooks/delivery/DeliveryMaintenance.ts"
import { listRunning, step } from "../../src/webhooks/Replays.ts"
import { TestServer } from "../support/TestServer.ts"
import { put } from "../support/Rows.ts"
import { layerOf, open } from "./delivery/Deliveries.support.ts"

const created = "crm.deal.created.v1"
const updated = "crm.deal.updated.v1"
const task = "crm.task.created.v1"

const day = 24 * 3_600_000
const recently = Date.now() - day
/** Deliveries of this time that were finished at once have been pruned. */
const longAgo = Date.now() - (retentionDays + 1) * day

/** When an event occurred, in milliseconds, and the state of its delivery; `none` if it has no delivery to the installation. */
type Stored = readonly [at: number, status: string, type?: EventType, installation?: string]

/** The webhooks were made at 10, so what occurred since then and was not delivered to `shop` was missed, if it is recent. */
const stored: Readonly<Record<string, Stored>> = {
  a: [5, "dead"],
  b: [6, "delivered", updated],
  c: [7, "pending"],
  d: [8, "none"],
  e: [9, "dead", created, "other"],
  f: [10, "none"],
  g: [11, "dead", task],
  h: [12, "dead", created, "other"],
  i: [12, "dead"],
  j: [13, "dead", updated],
  k: [14, "dead"]
}

const selections: ReadonlyArray<
  readonly [ReplayFilter, ReadonlyArray<EventType>, since: number, until: number, string, epoch?: number]
> = [
  ["all", [created, updated], 0, 20, "abfhijk"],
  ["dead", [created, updated], 0, 20, "afhijk"],
  ["delivered", [created, updated], 0, 20, "b"],
  ["all", [updated], 0, 20, "bj"],
  ["dead", [created], 5, 12, "af"],
  ["all", [created, updated], 6, 7, "b"],
  ["all", [created, updated], 7, 10, ""],
  ["all", [created, updated], 12, 12, ""],
  ["all", [created, updated], 0, 20, "abijk", longAgo],
  ["dead", [created, updated], 0, 20, "aijk", longAgo]
]

layerOf({}, "api")("a replay", (it) => {
  it.effect("repeats exactly what is selected, each once, and has at most its number of deliveries open", function* () {
    const server = yield* TestServer
    const { sql } = server
    for (const [filter, eventTypes, since, until, expected, epoch = recently] of selections) {
      const project = yield* open(server, ["shop", "other"])
      const projectId = ProjectId.make(project.projectId)
      for (const shop of ["shop", "other"]) yield* project.subscribe(shop, "http://127.0.0.1:9/", [created, updated])
      yield* sql`UPDATE webhooks SET created_at = ${new Date(epoch + 10)}::timestamptz WHERE project_id = ${projectId}`
      const names = new Map<string, string>()
      for (const [name, [at, status, type = created, installation = "shop"]] of Object.entries(stored)) {
        const time = new Date(epoch + at)
        const id = `${firstIdAt("evt", time.getTime())}7${name.padStart(19, "0")}`
        names.set(id, name)
        yield* put(sql, "events", { project_id: projectId, id, type, occurred_at: time })
        if (status === "none") continue
        yield* put(sql, "deliveries", {
          project_id: projectId,
          id: `dlv_${name}`,
          installation_id: installation,
          event_id: id,
          event_type: type,
          status,
          available_at: status === "pending" ? "infinity" : null,
          finished_at: status === "pending" ? null : time,
          created_at: time,
          attempt_log: status === "delivered" ? [{ statusCode: 204 }] : []
        })
      }

      const period = { since: new Date(epoch + since), until: new Date(epoch + until) }
      const replay = { projectId, id: "rpl", installationId: InstallationId.make("shop"), until: period.until }
      yield* put(sql, "replays", {
        project_id: projectId,
        id: replay.id,
        installation_id: replay.installationId,
        ...period,
        event_types: eventTypes,
        status: filter,
        position: firstIdAt("evt", period.since.getTime())
      })
      for (let state = "running"; state === "running";) {
        // Two steps before the endpoint answers.
        for (let n = 0; n < 2; n++) yield* step(sql, replay, 2)
        const [open] = yield* sql<{ readonly count: number; readonly state: string }>`
          WITH ended AS (
            UPDATE deliveries SET status = 'delivered', finished_at = now(), available_at = NULL,
              attempt_log = '[{"statusCode":200}]'
            WHERE project_id = ${projectId} AND replay_id = 'rpl' AND finished_at IS NULL RETURNING 1
          )
          SELECT (SELECT count(*)::int FROM ended) AS count, state FROM replays WHERE project_id = ${projectId}`
        assert.isAtMost(open?.count ?? 0, 4)
        state = open?.state ?? ""
      }
      const repeats = yield* sql<{ readonly eventId: string }>`
        SELECT event_id AS "eventId" FROM deliveries WHERE project_id = ${projectId} AND replay_id = 'rpl'`
      const repeated = repeats.map(({ eventId }) => names.get(eventId)).toSorted()
      assert.strictEqual(repeated.join(""), expected, `${filter} ${eventTypes.join()} ${since} ${until}`)
    }
  })

  it.effect("is in each round while fewer projects than its limit have some, however many another has", function* () {
    const server = yield* TestServer
    const { sql } = server
    const [busy, other] = [yield* open(server), yield* open(server)]
    for (const project of [busy, other]) yield* project.subscribe("shop", "http://127.0.0.1:9/")
    const start = (projectId: string, count: number) =>
      Effect.orDie(sql`
        INSERT INTO replays (project_id, id, installation_id, since, until, event_types, status, state, position, created_at)
        SELECT ${projectId}, 'rpl_' || n, 'shop', now(), now(), '{}', 'all', 'running', 'evt_', now()
        FROM generate_series(1, ${count}::int) n`)
    yield* start(busy.projectId, 5_000)
    yield* start(other.projectId, 1)
    for (let n = 0; n < 3; n++) {
      const listed = yield* Effect.orDie(listRunning(sql))
      assert.lengthOf(listed, 100)
      assert.lengthOf(
        listed.filter(({ projectId }) => projectId === other.projectId),
        1
      )
    }
  })
})
