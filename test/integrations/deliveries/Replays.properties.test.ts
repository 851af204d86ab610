/** Replays of random deliveries with random selections: each selected delivery is repeated exactly once. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import fc from "fast-check"
import { InstallationId, ProjectId } from "../../../src/api/schema/Ids.ts"
import { firstIdAt } from "../../../src/platform/NewId.ts"
import { replayFilters } from "../../../src/api/integrations/Replays.ts"
import { start } from "../../../src/integrations/deliveries/Replays.ts"
import { step } from "../../../src/integrations/deliveries/Replayer.ts"
import { TestServer } from "../../support/TestServer.ts"
import { forAll } from "../../support/Properties.ts"
import { put } from "../../support/Rows.ts"
import { layerOf, open } from "./Deliveries.support.ts"

const types = ["crm.deal.created.v1", "crm.deal.updated.v1", "crm.task.created.v1"] as const
const subscribed: ReadonlyArray<(typeof types)[number]> = types.slice(0, 2)

/** Start of the model's time, in milliseconds since 1970. */
const epoch = Date.parse("2026-01-01T00:00:00Z")

const stored = fc.record({
  at: fc.nat({ max: 20 }),
  installation: fc.constantFrom("shop", "shop", "other"),
  type: fc.constantFrom(...types, types[0]),
  /** `none` if the event has no delivery: its webhook was disabled. */
  status: fc.constantFrom("dead" as const, "delivered" as const, "pending" as const, "none" as const)
})
/** Often the whole time, so that there is more than one step may make. */
const period = fc.oneof(fc.constant([0, 22] as const), fc.tuple(fc.nat({ max: 22 }), fc.nat({ max: 22 })))
const wanted = fc.record({
  period,
  filter: fc.constantFrom(...replayFilters),
  eventTypes: fc.subarray([...types])
})

type Stored = Parameters<Parameters<typeof stored.map>[0]>[0]
type Wanted = Parameters<Parameters<typeof wanted.map>[0]>[0]

const insert = Effect.fnUntraced(function* (projectId: string, all: ReadonlyArray<Stored>) {
  const { sql } = yield* TestServer
  const ids: Array<string> = []
  for (const [n, { at, installation, status, type }] of all.entries()) {
    const time = new Date(epoch + at)
    const id = `${firstIdAt("evt", time.getTime())}7${String(n).padStart(19, "0")}`
    ids.push(id)
    const isPending = status === "pending"
    yield* put(sql, "events", { project_id: projectId, id, type, occurred_at: time })
    if (status === "none") continue
    yield* put(sql, "deliveries", {
      project_id: projectId,
      id: `dlv_${n}`,
      installation_id: installation,
      event_id: id,
      event_type: type,
      status,
      available_at: isPending ? "infinity" : null,
      finished_at: isPending ? null : time,
      created_at: time,
      attempt_log: status === "delivered" ? [{ statusCode: 204 }] : []
    })
  }
  return ids
})

const run = Effect.fnUntraced(function* (all: ReadonlyArray<Stored>, { eventTypes, filter, period }: Wanted) {
  const server = yield* TestServer
  const { sql } = server
  const project = yield* open(server, ["shop", "other"])
  yield* project.subscribe("shop", "http://127.0.0.1:9/", [...subscribed])
  yield* project.subscribe("other", "http://127.0.0.1:9/", [...subscribed])
  yield* Effect.orDie(sql`
    UPDATE webhooks SET created_at = ${new Date(epoch + 10)}::timestamptz WHERE project_id = ${project.projectId}`)
  const ids = yield* insert(project.projectId, all)
  const projectId = ProjectId.make(project.projectId)
  const installationId = InstallationId.make("shop")
  const [since, until] = [new Date(epoch + Math.min(...period)), new Date(epoch + Math.max(...period))]
  const selected = all.flatMap((one, n) => {
    const isInPeriod = one.at >= Math.min(...period) && one.at < Math.max(...period)
    const isOfType = subscribed.includes(one.type) && (eventTypes.length === 0 || eventTypes.includes(one.type))
    // To this installation, an event of another has no delivery.
    const status = one.installation === "shop" ? one.status : "none"
    const isKnown = status !== "none" || one.at >= 10
    const counts = status === "none" ? "dead" : status
    const isSelected = counts !== "pending" && (filter === "all" || filter === counts)
    return isInPeriod && isOfType && isKnown && isSelected ? [ids[n] ?? ""] : []
  })

  const types = subscribed.filter((type) => eventTypes.length === 0 || eventTypes.includes(type))
  const replay = { projectId, id: "rpl", installationId, until }
  yield* Effect.orDie(start(sql, { ...replay, since, eventTypes: types, filter, actor: "tester" }))
  for (let state = "running"; state === "running";) {
    // Two steps before the endpoint answers.
    for (let n = 0; n < 2; n++) yield* Effect.orDie(step(sql, replay, 2))
    const [open] = yield* Effect.orDie(sql<{ readonly count: number; readonly state: string }>`
      WITH ended AS (
        UPDATE deliveries SET status = 'delivered', finished_at = now(), available_at = NULL, attempt_log = '[{"statusCode":200}]'
        WHERE project_id = ${projectId} AND replay_id = 'rpl' AND finished_at IS NULL RETURNING 1
      )
      SELECT (SELECT count(*)::int FROM ended) AS count, state FROM replays WHERE project_id = ${projectId}`)
    assert.isAtMost(open?.count ?? 0, 4)
    state = open?.state ?? ""
  }
  const repeats = yield* sql<{ readonly eventId: string }>`
    SELECT event_id AS "eventId" FROM deliveries WHERE project_id = ${projectId} AND replay_id = 'rpl'`.pipe(
    Effect.orDie
  )
  assert.deepStrictEqual(repeats.map(({ eventId }) => eventId).toSorted(), selected.toSorted())
})

/** More deliveries than a replay may have open. */
const crowded: [Array<Stored>, Wanted] = [
  Array.from({ length: 5 }, (_, at) => ({ at, installation: "shop", type: types[0], status: "dead" })),
  { period: [0, 22], filter: "all", eventTypes: [] }
]

layerOf({}, "api")("replays", (it) => {
  it.effect("repeat exactly what was selected, each once, whatever is stored", function* () {
    const all = fc.array(stored, { maxLength: 25, size: "max" })
    yield* forAll(fc.tuple(all, wanted), ([all, selection]) => run(all, selection), {
      numRuns: 25,
      examples: [[crowded]]
    })
  })
})
