/** Replays (contract §10): what is sent again, at which pace, and what becomes of the deliveries that were dead. */
import { assert } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import { at, documentOf, run as runCommand } from "../cli/Cli.support.ts"
import { problemOf } from "../support/ContractAnswers.ts"
import { deliveryPageOf } from "../support/IntegrationAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { until, untilRows } from "../support/Waiting.ts"
import { type Answering, hang, layerOf, ok, openShop, status, verifies } from "./delivery/Deliveries.support.ts"

const created = "crm.deal.created.v1"

const decodeStarted = Schema.decodeUnknownSync(Schema.Struct({ replayId: Schema.String }))
const decodeList = Schema.decodeUnknownSync(
  Schema.Struct({
    items: Schema.Array(Schema.Struct({ replayId: Schema.String, state: Schema.String, made: Schema.Int }))
  })
)

const deliveriesOf = Schema.decodeUnknownSync(
  Schema.Struct({ items: Schema.Array(Schema.Struct({ deliveryId: Schema.String })) })
)

const longAgo = "2026-01-01T00:00:00Z"
const farAway = "2099-01-01T00:00:00Z"

/** Opens a project with one webhook and deliveries to it that have ended, and returns it with the commands of replays. */
const start = Effect.fnUntraced(function* (deals: number, answer?: Answering) {
  const server = yield* TestServer
  const project = yield* openShop(server, answer)
  for (let n = 0; n < deals; n++) yield* project.created()
  yield* project.finished
  const env = at(Redacted.make(server.databaseUrl))
  const command = (...args: ReadonlyArray<string>) =>
    runCommand(["deliveries", ...args, "--project", project.projectId, "--json"], { env })
  const replay = (...flags: ReadonlyArray<string>) =>
    command("replay", "--installation", "shop", "--since", longAgo, "--until", farAway, ...flags).pipe(
      Effect.map((ended) => decodeStarted(documentOf(ended)).replayId)
    )
  const replays = Effect.map(command("replays"), (ended) => decodeList(documentOf(ended)).items)
  const ended = (replayId: string) =>
    Effect.map(
      untilRows(replays, (items) => items.some((item) => item.replayId === replayId && item.state !== "running")),
      (items) => items.find((item) => item.replayId === replayId) ?? assert.fail()
    )
  const repeats = server.sql<{ readonly id: string; readonly replayOf: string | null; readonly status: string }>`
    SELECT id, replay_of AS "replayOf", status FROM deliveries
    WHERE project_id = ${project.projectId} AND replay_id IS NOT NULL ORDER BY id`.pipe(Effect.orDie)
  const webhook = (action: string) =>
    runCommand(["webhooks", action, "--project", project.projectId, "--installation", "shop"], { env })
  const shown = (id: string) => Effect.map(command("show", "--delivery", id), documentOf)
  const listed = (...flags: ReadonlyArray<string>) =>
    Effect.map(command("list", ...flags), (ended) =>
      deliveriesOf(documentOf(ended)).items.map((item) => item.deliveryId)
    )
  return {
    ...project,
    command,
    replay,
    replays,
    ended,
    repeats,
    webhook,
    shown,
    listed,
    dead: listed("--status", "dead"),
    server
  }
})

layerOf()("a replay", (it) => {
  it.effect("repeats each delivery that it selects, with its event, its webhook-id and a signature", function* () {
    const shop = yield* start(3)
    const { secret, to } = shop
    const first = to.hits.map(({ body, headers }) => [headers["webhook-id"], body])
    assert.deepInclude(yield* shop.ended(yield* shop.replay()), { state: "completed", made: 0 })

    const replayId = yield* shop.replay("--status", "delivered", "--type", created)
    assert.deepInclude(yield* shop.ended(replayId), { state: "completed", made: 3 })
    yield* shop.finished
    const again = to.hits.slice(3)
    assert.deepStrictEqual(again.map(({ body, headers }) => [headers["webhook-id"], body]).toSorted(), first.toSorted())
    for (const hit of again) assert.isTrue(verifies(secret, hit))
    const made = yield* shop.repeats
    assert.deepStrictEqual(made.map(({ replayOf }) => replayOf).toSorted(), first.map(([id]) => String(id)).toSorted())
    for (const { id, replayOf } of made) {
      assert.deepInclude(yield* shop.shown(id), { deliveryId: id, replayOf, replayedBy: null, status: "delivered" })
    }
    // The next replay repeats each event once, not what this one made.
    assert.deepInclude(yield* shop.ended(yield* shop.replay("--status", "all")), { made: 3 })
  })

  it.effect(
    "has at most twice the endpoint's concurrency open, and a live delivery does not wait for it",
    function* () {
      const shop = yield* start(20, (hit, n) => (n < 20 ? ok : hang)(hit, n))
      const replayId = yield* shop.replay("--status", "all")
      yield* until(() => shop.to.open() === 4)
      yield* Effect.sleep("500 millis")
      assert.lengthOf(yield* shop.repeats, 8)
      const { stdout } = yield* shop.command("cancel-replay", "--replay", replayId)
      assert.deepStrictEqual(JSON.parse(stdout), { replayId, state: "cancelled", made: 8 })
      // It makes no more, and what it has made is sent.
      for (const { response } of shop.to.hits) response.end()
      yield* until(() => shop.to.hits.length === 28)
      for (const { response } of shop.to.hits) response.end()
      yield* shop.finished
      assert.deepStrictEqual(
        (yield* shop.repeats).map(({ status }) => status),
        Array.from({ length: 8 }, () => "delivered")
      )
      assert.strictEqual((yield* shop.command("cancel-replay", "--replay", replayId)).status, 0)
    }
  )

  it.effect("is cancelled when its webhook is disabled", function* () {
    const shop = yield* start(10)
    yield* shop.setHealth("parked_until = now() + interval '1 hour'")
    const replayId = yield* shop.replay("--status", "all")
    yield* untilRows(shop.repeats, (rows) => rows.length === 8)
    yield* shop.webhook("disable")
    const refused = yield* shop.command("replay", "--installation", "shop", "--since", longAgo, "--until", farAway)
    assert.deepStrictEqual([refused.status, refused.stderr.includes("is disabled")], [1, true])
    assert.deepInclude(yield* shop.ended(replayId), { state: "cancelled", made: 8 })
  })

  it.effect("of dead deliveries has them count as dead no longer, once it has delivered them", function* () {
    const answers = { next: status(500) }
    const shop = yield* start(2, (hit, n) => answers.next(hit, n))
    const ids = yield* shop.dead
    assert.lengthOf(ids, 2)
    yield* shop.setHealth("strikes = 0, failures = 0, parked_until = NULL")
    assert.deepInclude(yield* shop.ended(yield* shop.replay()), { made: 2 })
    yield* shop.finished
    // They died again, so each event is still dead, twice.
    assert.lengthOf(yield* shop.dead, 4)
    answers.next = ok
    yield* shop.setHealth("strikes = 0, failures = 0, parked_until = NULL")
    assert.deepInclude(yield* shop.ended(yield* shop.replay()), { made: 2 })
    yield* shop.finished
    const made = (yield* shop.repeats).filter(({ status }) => status === "delivered")
    assert.lengthOf(made, 2)
    assert.deepStrictEqual(yield* shop.dead, [])
    // Lists of all states have them, also those of a type.
    const all = yield* shop.listed()
    assert.lengthOf(all, 6)
    assert.deepStrictEqual(yield* shop.listed("--installation", "shop", "--type", created), all)
    const page = yield* shop.server.send({
      path: `/api/v1/developer/integrations/shop/outbound-webhook/deliveries?eventType=${created}`,
      token: shop.token
    })
    assert.deepStrictEqual(
      deliveryPageOf(page).items.map(({ id }) => id),
      all
    )
    for (const { id, replayOf } of made) {
      assert.deepInclude(yield* shop.shown(String(replayOf)), { status: "dead", replayedBy: id })
      const { detail } = problemOf(yield* shop.retry("shop", String(replayOf)), 409, "webhook_state_conflict")
      assert.include(detail, "replayedBy")
    }
    assert.deepInclude(yield* shop.ended(yield* shop.replay()), { made: 0 })
  })

  it.effect("goes on beside a replay whose steps fail", function* () {
    const [shop, broken] = [yield* start(1), yield* start(1)]
    const { sql } = shop
    yield* Effect.orDie(sql`
      CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$`)
    yield* Effect.orDie(sql`
      CREATE TRIGGER refuse BEFORE INSERT ON deliveries FOR EACH ROW
      WHEN (NEW.project_id = ${sql.literal(`'${broken.projectId}'`)} AND NEW.replay_id IS NOT NULL) EXECUTE FUNCTION refuse()`)
    const first = yield* broken.replay("--status", "all")
    const second = yield* shop.replay("--status", "all")
    assert.deepInclude(yield* shop.ended(second), { state: "completed", made: 1 })
    yield* Effect.orDie(sql`DROP FUNCTION refuse CASCADE`)
    assert.deepInclude(yield* broken.ended(first), { state: "completed", made: 1 })
  })

  it.effect(
    "leaves out an event whose delivery is open at the command, and ends before the replay gets there",
    function* () {
      const late: Array<() => void> = []
      const shop = yield* start(1, (hit, n) => (n === 1 ? void late.push(() => ok(hit, n)) : ok(hit, n)))
      yield* shop.created()
      yield* until(() => late.length === 1)
      // The replay begins once the row is free.
      const replayId = yield* shop.sql.withTransaction(
        Effect.gen(function* () {
          yield* shop.sql`LOCK TABLE events IN ACCESS EXCLUSIVE MODE`
          const replayId = yield* shop.replay("--status", "all")
          late[0]?.()
          yield* shop.finished
          return replayId
        })
      )
      assert.deepInclude(yield* shop.ended(replayId), { state: "completed", made: 1 })
    }
  )

  it.effect("of an unknown project, installation or replay fails, and so does an empty period", function* () {
    const shop = yield* start(0)
    const range = ["--since", longAgo, "--until", farAway]
    for (const [args, words] of [
      [["replay", "--installation", "nobody", ...range], 'no webhook for installation "nobody"'],
      [["replay", "--installation", "shop", "--since", farAway, "--until", farAway], "since must be before `until`"],
      [["cancel-replay", "--replay", "rpl_none"], 'no replay "rpl_none"']
    ] as const) {
      const { status: exit, stderr, stdout } = yield* shop.command(...args)
      assert.deepStrictEqual([exit, stdout], [1, ""])
      assert.include(stderr, words)
    }
  })
})
