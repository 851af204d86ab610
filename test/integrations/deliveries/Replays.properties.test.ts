/** Replays of random deliveries with random selections: each selected delivery is repeated exactly once. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import fc from "fast-check"
import { InstallationId, ProjectId } from "../../../src/api/schema/Ids.ts"
import { firstIdAt } from "../../../src/platform/NewId.ts"
import { release } from "../../../src/integrations/deliveries/Replays/Release.ts"
import { start } from "../../../src/integrations/deliveries/Replays/Repo.ts"
import { count, filterNames, filters, type Selection } from "../../../src/integrations/deliveries/Replays/Selection.ts"
import { TestServer } from "../../support/TestServer.ts"
import { forAll } from "../../support/Properties.ts"
import { put } from "../../support/Rows.ts"
import { open, layerOf } from "./Deliveries.support.ts"

const types = ["crm.deal.created.v1", "crm.deal.updated.v1", "crm.task.created.v1"] as const
const subscribed: ReadonlyArray<(typeof types)[number]> = types.slice(0, 2)

/** Start of the model's time, in milliseconds since 1970. */
const epoch = Date.parse("2026-01-01T00:00:00Z")

const stored = fc.record({
  at: fc.nat({ max: 20 }),
  installation: fc.constantFrom("shop", "shop", "other"),
  type: fc.constantFrom(...types, types[0]),
  status: fc.constantFrom("dead" as const, "delivered" as const, "pending" as const),
  isReplay: fc.constantFrom(true, false, false)
})
/** Often the whole time, so that there is more to release than one run may. */
const period = fc.oneof(fc.constant([0, 22] as const), fc.tuple(fc.nat({ max: 22 }), fc.nat({ max: 22 })))
const wanted = fc.record({
  period,
  filter: fc.constantFrom(...filterNames),
  eventTypes: fc.subarray([...types]),
  pace: fc.constantFrom(1, 1000)
})

type Stored = Parameters<Parameters<typeof stored.map>[0]>[0]
type Wanted = Parameters<Parameters<typeof wanted.map>[0]>[0]

const insert = Effect.fnUntraced(function* (projectId: string, all: ReadonlyArray<Stored>) {
  const { sql } = yield* TestServer
  const ids: Array<string> = []
  for (const [n, { at, installation, isReplay, status, type }] of all.entries()) {
    const time = new Date(epoch + at)
    const id = `${firstIdAt("dlv", time.getTime())}7${String(n).padStart(19, "0")}`
    ids.push(id)
    const isPending = status === "pending"
    yield* put(sql, "events", { project_id: projectId, id: `evt_${n}`, type, occurred_at: time })
    yield* put(sql, "deliveries", {
      project_id: projectId,
      id,
      installation_id: installation,
      event_id: `evt_${n}`,
      event_type: type,
      status,
      available_at: isPending ? "infinity" : null,
      finished_at: isPending ? null : time,
      created_at: time,
      replay_of: isReplay ? "dlv_before" : null,
      attempt_log: status === "delivered" ? [{ statusCode: 204 }] : []
    })
  }
  return ids
})

const run = Effect.fnUntraced(function* (all: ReadonlyArray<Stored>, { eventTypes, filter, pace, period }: Wanted) {
  const server = yield* TestServer
  const { sql } = server
  const project = yield* open(server, ["shop", "other"])
  yield* project.subscribe("shop", "http://127.0.0.1:9/", [...subscribed])
  yield* project.subscribe("other", "http://127.0.0.1:9/", [...subscribed])
  const ids = yield* insert(project.projectId, all)
  const selection: Selection = {
    projectId: ProjectId.make(project.projectId),
    installationId: InstallationId.make("shop"),
    since: new Date(epoch + Math.min(...period)),
    until: new Date(epoch + Math.max(...period)),
    // As in the service, only subscribed types.
    eventTypes: subscribed.filter((type) => eventTypes.length === 0 || eventTypes.includes(type)),
    filter
  }
  const states: ReadonlyArray<string> = filters[filter]
  const selected = all.flatMap((one, n) => {
    const isInPeriod = one.at >= Math.min(...period) && one.at < Math.max(...period)
    const isOfType = subscribed.includes(one.type) && (eventTypes.length === 0 || eventTypes.includes(one.type))
    const id = ids[n] ?? ""
    return one.installation === "shop" && !one.isReplay && states.includes(one.status) && isInPeriod && isOfType
      ? [id]
      : []
  })
  let matched = 0
  let position: string | null = firstIdAt("dlv", selection.since.getTime())
  while (position !== null) {
    const [found]: ReadonlyArray<{ readonly last: string | null; readonly matched: number }> = yield* Effect.orDie(
      count(sql, selection, position)
    )
    matched += found?.matched ?? 0
    position = found?.last ?? null
  }
  assert.strictEqual(matched, selected.length)

  const replay = { ...selection, id: "rpl" }
  yield* Effect.orDie(start(sql, { ...replay, pace, matched, actor: "tester" }))
  const repeats = sql<{ readonly replayOf: string }>`
    SELECT replay_of AS "replayOf" FROM deliveries
    WHERE project_id = ${project.projectId} AND replay_id = 'rpl' ORDER BY replay_of`.pipe(Effect.orDie)
  for (let state = "running"; state === "running";) {
    // Two runs, before each of which the pace permits deliveries; then the endpoint answers, after a second.
    for (let n = 0; n < 2; n++) {
      yield* Effect.orDie(sql`
        UPDATE replays SET paced_at = now() - interval '1 hour' WHERE project_id = ${project.projectId}`)
      const [step] = yield* Effect.orDie(release(sql, replay, { concurrency: 4, interval: 50 }))
      assert.isAtMost(step?.made ?? 0, Math.min(2, pace))
    }
    const [open] = yield* Effect.orDie(sql<{ readonly count: number; readonly state: string }>`
      WITH ended AS (
        UPDATE deliveries SET status = 'delivered', finished_at = now(), available_at = NULL,
          attempt_log = '[{"durationMs":1000}]'
        WHERE project_id = ${project.projectId} AND replay_id = 'rpl' AND finished_at IS NULL RETURNING 1
      )
      SELECT (SELECT count(*)::int FROM ended) AS count, state FROM replays WHERE project_id = ${project.projectId}`)
    // A replay has at most two of the endpoint's four deliveries in flight.
    assert.isAtMost(open?.count ?? 0, 2)
    state = open?.state ?? ""
  }
  assert.deepStrictEqual(
    (yield* repeats).map(({ replayOf }) => replayOf),
    selected.toSorted()
  )
})

/** More deliveries than the endpoint may have in flight. */
const crowded: [Array<Stored>, Wanted] = [
  Array.from({ length: 5 }, (_, at) => ({ at, installation: "shop", type: types[0], status: "dead", isReplay: false })),
  { period: [0, 22], filter: "all", eventTypes: [], pace: 1000 }
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
