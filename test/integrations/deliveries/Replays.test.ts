/** Replays (contract §13): which deliveries are repeated, with which content, and that live ones come first. */
import { assert } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import { InstallationId, ProjectId } from "../../../src/api/schema/Ids.ts"
import { deadLetterBatch } from "../../../src/integrations/deliveries/DeliveryMaintenance/DeadLetter.ts"
import { empty } from "../../../src/integrations/deliveries/Replays/Release.ts"
import { count } from "../../../src/integrations/deliveries/Replays/Selection.ts"
import { firstIdAt } from "../../../src/platform/NewId.ts"
import { at, documentOf, run as runCommand } from "../../cli/Cli.support.ts"
import { TestServer } from "../../support/TestServer.ts"
import { until, untilRows } from "../../support/Waiting.ts"
import { put } from "../../support/Rows.ts"
import { type Answering, hang, layerOf, ok, open, openShop, slowly, status, verifies } from "./Deliveries.support.ts"

const created = "crm.deal.created.v1"
const updated = "crm.deal.updated.v1"

const Started = Schema.Struct({ replayId: Schema.NullOr(Schema.String), matched: Schema.Int, queued: Schema.Int })
const List = Schema.Struct({
  items: Schema.Array(
    Schema.Struct({
      replayId: Schema.String,
      state: Schema.String,
      matched: Schema.Int,
      queued: Schema.Int,
      skipped: Schema.optionalKey(Schema.Int),
      endReason: Schema.optionalKey(Schema.NullOr(Schema.String)),
      pace: Schema.Int
    })
  )
})

const longAgo = "2026-01-01T00:00:00Z"
const farAway = "2099-01-01T00:00:00Z"

/** Opens a project with one webhook and deliveries to it that have ended, and returns it with the commands of replays. */
const start = Effect.fnUntraced(function* (deals: number, answer?: Answering) {
  const server = yield* TestServer
  const project = yield* openShop(server, answer)
  for (let n = 0; n < deals; n++) yield* project.created()
  yield* project.finished
  const command = (...args: ReadonlyArray<string>) =>
    runCommand(["deliveries", ...args, "--project", project.projectId, "--json"], {
      env: at(Redacted.make(server.databaseUrl))
    })
  const replay = (...flags: ReadonlyArray<string>) =>
    command("replay", "--installation", "shop", "--since", longAgo, "--until", farAway, ...flags).pipe(
      Effect.map((ended) => Schema.decodeUnknownSync(Started)(documentOf(ended)))
    )
  const replays = Effect.map(command("replays"), (ended) => Schema.decodeUnknownSync(List)(documentOf(ended)).items)
  const ended = (replayId: string | null) =>
    untilRows(replays, (items) =>
      items.some((item) => item.replayId === replayId && ["completed", "cancelled"].includes(item.state))
    )
  const repeats = server.sql<{ readonly id: string; readonly replayOf: string; readonly status: string }>`
    SELECT id, replay_of AS "replayOf", status FROM deliveries
    WHERE project_id = ${project.projectId} AND replay_of IS NOT NULL ORDER BY id`.pipe(Effect.orDie)
  return { ...project, command, replay, replays, ended, repeats, server }
})

layerOf()("a replay", (it) => {
  it.effect(
    "repeats each delivery that it selects, with its event, its webhook-id and a signature, and marks it",
    function* () {
      const { command, ended, finished, repeats, replay, secret, to } = yield* start(3)
      const first = to.hits.map(({ body, headers }) => [headers["webhook-id"], body])

      assert.deepStrictEqual(yield* replay("--status", "all", "--dry-run"), { replayId: null, matched: 3, queued: 0 })
      assert.deepInclude(yield* replay("--dry-run"), { matched: 0 })
      assert.deepInclude(yield* replay("--status", "all", "--type", updated, "--dry-run"), { matched: 0 })
      assert.deepStrictEqual(yield* repeats, [])

      const started = yield* replay("--status", "delivered", "--type", created)
      assert.deepInclude(started, { matched: 3, queued: 3 })
      const items = yield* ended(started.replayId)
      assert.deepInclude(items[0], { state: "completed", matched: 3, queued: 3, pace: 50 })
      yield* until(() => to.hits.length === 6)
      yield* finished
      const again = to.hits.slice(3)
      assert.deepStrictEqual(
        again.map(({ body, headers }) => [headers["webhook-id"], body]).toSorted(),
        first.toSorted()
      )
      for (const hit of again) assert.isTrue(verifies(secret, hit))

      const made = yield* repeats
      assert.deepStrictEqual(
        made.map(({ replayOf }) => replayOf).toSorted(),
        first.map(([id]) => String(id)).toSorted()
      )
      for (const { id, replayOf } of made) {
        const shown = documentOf(yield* command("show", "--delivery", id))
        assert.deepInclude(shown, { deliveryId: id, replayOf, status: "delivered" })
      }
      // Deliveries of a replay are not repeated by the next one.
      assert.deepInclude(yield* replay("--status", "all", "--dry-run"), { matched: 3 })
    }
  )

  it.effect(
    "never has more than half of the endpoint's concurrency in flight, and a live delivery does not wait",
    function* () {
      // The first answers count as slow; later ones never come, so that deliveries stay in flight.
      const shop = yield* start(40, (hit, n) => (n < 40 ? ok : hang)(hit, n))
      yield* shop.sql`
      UPDATE deliveries SET attempt_log = jsonb_set(attempt_log, '{-1,durationMs}', '1000')
      WHERE project_id = ${shop.projectId}`.pipe(Effect.orDie)
      const { replayId } = yield* shop.replay("--status", "all", "--pace", "1000")
      yield* until(() => shop.to.open() === 2)
      yield* shop.created()
      // The live delivery is sent although the replay waits.
      yield* until(() => shop.to.open() === 3)
      assert.strictEqual((yield* shop.repeats).length, 2)
      yield* shop.command("cancel-replay", "--replay", String(replayId))
    }
  )

  it.effect("is cancelled: no further delivery is sent, and none is retried", function* () {
    const shop = yield* start(20, (hit, n) => (n < 20 ? ok : status(500))(hit, n))
    const { replayId } = yield* shop.replay("--status", "all", "--pace", "1")
    yield* until(() => shop.to.hits.length > 20)
    const cancelled = documentOf(yield* shop.command("cancel-replay", "--replay", String(replayId)))
    assert.deepInclude(cancelled, { replayId, state: "cancelling" })
    const items = yield* shop.ended(replayId)
    assert.deepInclude(items[0], { state: "cancelled", matched: 20 })
    assert.isTrue((yield* shop.repeats).every(({ status }) => status === "dead"))
    const sent = shop.to.hits.length
    assert.isBelow(sent, 40)
    yield* Effect.sleep("500 millis")
    assert.strictEqual(shop.to.hits.length, sent)
    const { status: exit, stderr } = yield* shop.command("cancel-replay", "--replay", String(replayId))
    assert.deepStrictEqual([exit, stderr.includes("is cancelled")], [1, true])
  })

  it.effect("ends with the reason when its webhook is disabled", function* () {
    const shop = yield* start(10, slowly(50))
    const { replayId } = yield* shop.replay("--status", "all", "--pace", "5")
    yield* until(() => shop.to.hits.length > 10)
    yield* runCommand(["webhooks", "disable", "--project", shop.projectId, "--installation", "shop"], {
      env: at(Redacted.make(shop.server.databaseUrl))
    })
    const refused = yield* shop.command("replay", "--installation", "shop", "--since", longAgo, "--until", farAway)
    assert.deepStrictEqual([refused.status, refused.stderr.includes("is disabled")], [1, true])
    const items = yield* shop.ended(replayId)
    assert.deepInclude(items[0], { state: "cancelled", endReason: "webhook_disabled", skipped: 0 })
    const made = yield* shop.repeats
    assert.isBelow(made.length, 10)
    assert.deepInclude(items[0], { queued: made.length })
  })

  it.effect("to a suspect endpoint sends one delivery as its probe, and the others when that succeeds", function* () {
    const answers = { first: status(500), next: hang }
    const shop = yield* start(3, (hit, n) => (n < 9 ? answers.first : answers.next)(hit, n))
    assert.strictEqual(shop.to.hits.length, 9)
    // Failures have made it suspect; the pause of a parked endpoint is over.
    yield* shop.setHealth("strikes = 9, failures = 9, parked_until = now() - interval '1 second'")
    const { replayId } = yield* shop.replay()
    yield* until(() => shop.to.open() === 1)
    assert.strictEqual((yield* shop.repeats).length, 1)
    answers.next = ok
    shop.to.hits.at(-1)?.response.end()
    assert.deepInclude((yield* shop.ended(replayId))[0], { state: "completed", matched: 3, queued: 3 })
    yield* shop.finished
    const states = (yield* shop.repeats).map((repeat) => repeat.status)
    assert.deepStrictEqual(states, ["delivered", "delivered", "delivered"])
  })

  it.effect("is not kept waiting by a hundred replays of another project that cannot go on", function* () {
    const shop = yield* start(1)
    // The endpoint is parked, and its replays have waited for longer.
    const { projectId, setHealth, sql } = yield* start(0)
    yield* setHealth("strikes = 9, parked_until = now() + interval '1 hour'")
    const waiting = { project_id: projectId, installation_id: "shop", position: "dlv_", paced_at: "yesterday" }
    yield* put(sql, "replays", ...Array.from({ length: 100 }, (_, n) => ({ ...waiting, id: `rpl_${n}` })))
    const { replayId } = yield* shop.replay("--status", "all")
    assert.deepInclude((yield* shop.ended(replayId))[0], { state: "completed", queued: 1 })
  })

  it.effect("keeps a pace whose period is no whole number of milliseconds", function* () {
    const shop = yield* start(1)
    const { replayId } = yield* shop.replay("--status", "all", "--pace", "3")
    assert.deepInclude((yield* shop.ended(replayId))[0], { state: "completed", queued: 1 })
  })

  it.effect("goes on beside a replay whose steps fail", function* () {
    const shop = yield* start(1)
    const { sql } = shop
    const broken = yield* start(1)
    yield* Effect.orDie(sql`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$`)
    yield* Effect.orDie(sql`
      CREATE TRIGGER refuse BEFORE INSERT ON deliveries FOR EACH ROW
      WHEN (NEW.project_id = ${sql.literal(`'${broken.projectId}'`)} AND NEW.replay_id IS NOT NULL) EXECUTE FUNCTION refuse()`)
    const first = yield* broken.replay("--status", "all")
    const { replayId } = yield* shop.replay("--status", "all")
    assert.deepInclude((yield* shop.ended(replayId))[0], { state: "completed", queued: 1 })
    yield* Effect.orDie(sql`DROP FUNCTION refuse CASCADE`)
    yield* broken.ended(first.replayId)
  })

  it.effect("is cancelled in batches when very many of its deliveries wait for a retry", function* () {
    const shop = yield* start(1)
    const { projectId: project, sql } = shop
    const projectId = ProjectId.make(project)
    yield* shop.setHealth("resting_until = now() + interval '1 hour'")
    const { replayId } = yield* shop.replay("--status", "all")
    yield* Effect.orDie(sql`
      INSERT INTO deliveries (project_id, id, installation_id, event_id, available_at, created_at, replay_id, replay_of)
      SELECT project_id, new_id('dlv', now()), installation_id, event_id, now() + interval '1 hour', now(), ${replayId}, id
      FROM deliveries, generate_series(1, 2 * ${deadLetterBatch}::int) WHERE project_id = ${project}`)
    const dead = () =>
      Effect.map(shop.repeats, (repeats) => repeats.filter((repeat) => repeat.status === "dead").length)
    const replay = {
      projectId,
      id: String(replayId),
      installationId: InstallationId.make("shop"),
      until: new Date(farAway)
    }
    const one = Effect.gen(function* () {
      yield* sql`UPDATE replays SET state = 'cancelling' WHERE project_id = ${project}`
      yield* empty(sql, replay)
      return yield* dead()
    })
    assert.strictEqual(yield* Effect.orDie(sql.withTransaction(one)), deadLetterBatch)
    yield* shop.ended(replayId)
    assert.strictEqual(yield* dead(), 2 * deadLetterBatch)
  })

  it.effect(
    "does not repeat a delivery that was open at the command and ends before the replay gets there",
    function* () {
      const late: Array<() => void> = []
      const shop = yield* start(1, (hit, n) => (n === 1 ? void late.push(() => ok(hit, n)) : ok(hit, n)))
      yield* shop.created()
      yield* until(() => late.length === 1)
      yield* shop.setHealth("resting_until = now() + interval '1 hour'")
      const { matched, replayId } = yield* shop.replay("--status", "all")
      late[0]?.()
      yield* shop.finished
      yield* shop.setHealth("resting_until = NULL")
      assert.deepInclude((yield* shop.ended(replayId))[0], { state: "completed", matched, queued: 1 })
    }
  )

  it.effect("counts what retention has removed before it was repeated", function* () {
    const shop = yield* start(3)
    const { sql } = shop
    yield* shop.setHealth("resting_until = now() + interval '1 hour'")
    const { replayId } = yield* shop.replay("--status", "all")
    yield* Effect.orDie(sql`
      DELETE FROM deliveries WHERE id = (SELECT min(id) FROM deliveries WHERE project_id = ${shop.projectId})`)
    yield* shop.setHealth("resting_until = NULL")
    assert.deepInclude((yield* shop.ended(replayId))[0], { state: "completed", matched: 3, queued: 2, skipped: 1 })
  })

  it.effect("reads the deliveries of its installation alone", function* () {
    const { sql } = yield* TestServer
    const project = yield* open(yield* TestServer, ["shop", "other"])
    for (const id of ["shop", "other"]) yield* project.subscribe(id, "http://127.0.0.1:9/")
    yield* put(sql, "events", { project_id: project.projectId, id: "evt_1" })
    yield* Effect.orDie(sql`
      INSERT INTO deliveries (project_id, id, installation_id, event_id, status, finished_at, created_at)
      SELECT ${project.projectId}, new_id('dlv', now()), 'other', 'evt_1', 'dead', now(), now()
      FROM generate_series(1, 6000)`)
    const selection = {
      projectId: ProjectId.make(project.projectId),
      installationId: InstallationId.make("shop"),
      since: new Date(longAgo),
      until: new Date(farAway),
      eventTypes: [created],
      filter: "all"
    } as const
    const [first] = yield* Effect.orDie(count(sql, selection, firstIdAt("dlv", selection.since.getTime())))
    assert.deepStrictEqual(first, { last: null, matched: 0 })
  })

  it.effect("of an unknown project, installation or replay fails, and so does an empty period", function* () {
    const shop = yield* start(0)
    const range = ["--since", longAgo, "--until", farAway]
    for (const [args, words] of [
      [["replay", "--installation", "nobody", ...range], 'no webhook for installation "nobody"'],
      [["replay", "--installation", "shop", "--since", farAway, "--until", farAway], "range is empty"],
      [["cancel-replay", "--replay", "rpl_none"], 'no replay "rpl_none"']
    ] as const) {
      const { status: exit, stderr, stdout } = yield* shop.command(...args)
      assert.deepStrictEqual([exit, stdout], [1, ""])
      assert.include(stderr, words)
    }
  })
})
