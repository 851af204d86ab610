/** Moves between the states of a delivery by the statement of each move, and the fence that refuses stale results. */
import { assert } from "@effect/vitest"
import { Deferred, Effect, Fiber, Struct } from "effect"
import type { Worker } from "../../../src/platform/background/Worker.ts"
import type { Claim } from "../../../src/integrations/deliveries/DeliveryLoop/Claim.ts"
import { discard, expire } from "../../../src/integrations/deliveries/DeliveryMaintenance/DeadLetter.ts"
import { empty } from "../../../src/integrations/deliveries/Replays/Release.ts"
import { reclaim } from "../../../src/integrations/deliveries/DeliveryMaintenance/Recovery.ts"
import type { Result } from "../../../src/integrations/deliveries/DeliveryLoop/Results.ts"
import { returnedBy } from "../../../src/integrations/deliveries/DeliverySchedule.ts"
import { deliveries, type Move, type State, states } from "../../../src/integrations/deliveries/States.ts"
import { InstallationId, ProjectId } from "../../../src/api/schema/Ids.ts"
import { claimWith, namedOf, recordAll } from "../../support/Claims.ts"
import { TestServer } from "../../support/TestServer.ts"
import { enable } from "../../support/Events.ts"
import { untilRows } from "../../support/Waiting.ts"
import { open, layerOf } from "./Deliveries.support.ts"

const minute = 60_000
const day = 24 * 60 * minute
const workerId = 1n

/** A worker that considers no other worker dead. */
const worker: Worker["Service"] = {
  id: workerId,
  leaseId: () => workerId,
  isFirst: () => true,
  isDead: (sql) => sql`false`
}

/** Opens a project with one due delivery, without a worker: the test claims and records. */
const openOne = Effect.fnUntraced(function* () {
  const server = yield* TestServer
  const project = yield* open(server)
  yield* project.subscribe("shop", "http://127.0.0.1:9/", ["crm.deal.created.v1"])
  yield* project.created()
  return project
})
type Shop = Effect.Success<ReturnType<typeof openOne>>

interface Claimer {
  readonly concurrency?: number
  readonly workerId?: bigint
}

const claimFor = (
  { projectId, sql }: Pick<Shop, "projectId" | "sql">,
  installations: ReadonlyArray<string> = ["shop"],
  { concurrency = 4, workerId: by = workerId }: Claimer = {}
) =>
  claimWith(sql, {
    workerId: by,
    concurrency,
    named: installations.map((id) => namedOf(projectId, id, concurrency))
  }).pipe(Effect.map(({ claims }) => claims.filter((claim) => claim.projectId === projectId)))

const claimOne = Effect.fnUntraced(function* (shop: Shop) {
  const claims = yield* claimFor(shop)
  assert.strictEqual(claims.length, 1)
  return claims[0] ?? assert.fail()
})

const resultFor = (claim: Claim, on: Result["on"]): Result => ({
  ...returnedBy(claim, "unsent", { startedAt: 0, finishedAt: 5 }),
  on,
  statusCode: on === "succeeded" ? 200 : null,
  errorCode: on === "succeeded" ? null : "connection_lost",
  strikes: on === "failed" || on === "exhausted" ? 1 : 0
})

const recordOne = (shop: Shop, claim: Claim, on: Result["on"]) => recordAll(shop.sql, [resultFor(claim, on)])

/** Ends every lease of the project. */
const endLeases = ({ projectId, sql }: Shop) =>
  Effect.orDie(sql`
    UPDATE deliveries SET leased_until = now() - interval '1 second'
    WHERE project_id = ${projectId} AND status = 'delivering'`)

/** Moves a new delivery into a state with the fewest steps. */
const bring: Readonly<Record<State, (shop: Shop) => Effect.Effect<unknown>>> = {
  pending: () => Effect.void,
  delivering: claimOne,
  delivered: (shop) => Effect.flatMap(claimOne(shop), (claim) => recordOne(shop, claim, "succeeded")),
  dead: (shop) => Effect.flatMap(claimOne(shop), (claim) => recordOne(shop, claim, "exhausted"))
}

/** Returns the current attempt of the project's delivery, whatever its state. */
const current = Effect.fnUntraced(function* (shop: Shop) {
  const [row] = yield* shop.sql<Claim>`
    SELECT project_id AS "projectId", installation_id AS "installationId", id, attempts AS attempt,
      coalesce(leased_until, now()) AS "leasedUntil", 'https://shop.example.com' AS "endpointUrl", 1 AS "urlVersion"
    FROM deliveries WHERE project_id = ${shop.projectId}`
  return row ?? assert.fail()
}, Effect.orDie)

const recorded = (on: Result["on"]) => (shop: Shop) =>
  Effect.flatMap(current(shop), (claim) => recordOne(shop, claim, on))

/** The statement of each move, run on the delivery whatever its state. */
const run: Readonly<Record<Move, (shop: Shop) => Effect.Effect<unknown>>> = {
  claimed: (shop) => claimFor(shop, []),
  succeeded: recorded("succeeded"),
  failed: recorded("failed"),
  exhausted: recorded("exhausted"),
  released: recorded("released"),
  unsent: recorded("unsent"),
  lease_lost: (shop) => Effect.andThen(endLeases(shop), Effect.orDie(reclaim(shop.sql, worker, minute))),
  disabled: ({ projectId, sql }) =>
    enable(sql, projectId, "shop", false).pipe(
      Effect.andThen(Effect.orDie(sql`UPDATE endpoint_health SET discarding = true WHERE project_id = ${projectId}`)),
      Effect.andThen(Effect.orDie(discard(sql))),
      Effect.andThen(enable(sql, projectId, "shop", true))
    ),
  cancelled: ({ projectId, sql }) =>
    sql`
      INSERT INTO replays (project_id, id, installation_id, since, until, event_types, statuses, pace, state, matched,
        position, paced_at, created_at)
      VALUES (${projectId}, 'rpl', 'shop', now(), now(), '{}', '{}', 1, 'cancelling', 1, '', now(), now())`.pipe(
      Effect.andThen(sql`UPDATE deliveries SET replay_id = 'rpl' WHERE project_id = ${projectId}`),
      Effect.andThen(
        empty(sql, {
          projectId: ProjectId.make(projectId),
          id: "rpl",
          installationId: InstallationId.make("shop"),
          until: new Date()
        })
      ),
      Effect.andThen(sql`UPDATE deliveries SET replay_id = NULL WHERE project_id = ${projectId}`),
      Effect.orDie
    ),
  expired: ({ projectId, sql }) =>
    Effect.orDie(
      sql`UPDATE deliveries SET created_at = created_at - interval '2 days' WHERE project_id = ${projectId}`
    ).pipe(
      Effect.andThen(Effect.orDie(expire(sql, day))),
      Effect.andThen(
        Effect.orDie(
          sql`UPDATE deliveries SET created_at = created_at + interval '2 days' WHERE project_id = ${projectId}`
        )
      )
    ),
  retried: (shop) => Effect.flatMap(current(shop), ({ id }) => shop.retry("shop", id))
}

/** Returns all stored data of a delivery and of its endpoint. */
const everything = (shop: Shop) =>
  Effect.orDie(shop.sql`
    SELECT to_jsonb(deliveries) AS delivery,
      to_jsonb(health) - '{next_due_at,claim_at,saturated}'::text[] AS health
    FROM deliveries JOIN endpoint_health health USING (project_id, installation_id)
    WHERE project_id = ${shop.projectId}`)

const stateOf = (shop: Shop) => Effect.map(shop.deliveries(), ([row]) => row ?? assert.fail())

const inFlightOf = (state: State) => (state === "delivering" ? 1 : 0)

layerOf({}, "api")("the states of a delivery", (it) => {
  for (const from of states) {
    for (const on of Struct.keys(run)) {
      const act = run[on]
      const moves: Readonly<Partial<Record<State, State>>> = deliveries.moves[on]
      const to = moves[from]
      const title = to === undefined ? `${from} is not ${on}` : `${from} → ${to}, ${on}`
      it.effect(title, function* () {
        const shop = yield* openOne()
        // A new delivery is found by its notice; after the first claim, by the mark of its endpoint.
        yield* Effect.flatMap(
          claimFor(shop),
          Effect.forEach((claim) => recordOne(shop, claim, "unsent"))
        )
        yield* bring[from](shop)
        assert.strictEqual((yield* stateOf(shop)).status, from)
        if (from === "delivering" && on === "lease_lost") yield* endLeases(shop)
        const before = yield* everything(shop)
        yield* act(shop)
        const after = yield* stateOf(shop)
        assert.strictEqual(after.status, to ?? from)
        if (to === undefined) assert.deepStrictEqual(yield* everything(shop), before)
        assert.strictEqual(after.availableAt !== null, ["pending", "delivering"].includes(after.status))
        assert.strictEqual(after.finishedAt !== null, ["delivered", "dead"].includes(after.status))
        assert.strictEqual((yield* shop.health()).inFlight, inFlightOf(after.status))
      })
    }
  }

  it.effect("refuse the result of an attempt that has lost its lease", function* () {
    for (const on of ["succeeded", "failed", "exhausted", "released", "unsent"] as const) {
      const shop = yield* openOne()
      const stale = yield* claimOne(shop)
      yield* run.lease_lost(shop)
      const beforeClaim = yield* everything(shop)
      yield* recordOne(shop, stale, on)
      assert.deepStrictEqual(yield* everything(shop), beforeClaim, `${on} while it waits`)

      const claim = yield* claimOne(shop)
      assert.deepStrictEqual([stale.attempt, claim.attempt, claim.id], [1, 2, stale.id])
      const before = yield* everything(shop)
      yield* recordOne(shop, stale, on)
      assert.deepStrictEqual(yield* everything(shop), before, `${on} while another has it`)

      // Both in one batch: only the result of the current lease counts, once.
      yield* recordAll(shop.sql, [resultFor(stale, on), resultFor(claim, "succeeded")])
      const row = yield* stateOf(shop)
      assert.deepInclude(row, { status: "delivered", attempts: 2 })
      assert.deepStrictEqual(
        row.log.map(({ errorCode, number, statusCode }) => [number, statusCode, errorCode]),
        [
          [1, null, "lease_lost"],
          [2, 200, null]
        ]
      )
      assert.strictEqual((yield* shop.health()).inFlight, 0)

      // A repeated result changes nothing.
      const done = yield* everything(shop)
      yield* recordOne(shop, claim, "succeeded")
      yield* recordOne(shop, claim, "failed")
      assert.deepStrictEqual(yield* everything(shop), done)
    }
  })

  // As after a crash that took back the claim.
  it.effect("refuse a second result for a lease that was returned unsent and claimed again", function* () {
    const shop = yield* openOne()
    const first = yield* claimOne(shop)
    yield* recordOne(shop, first, "unsent")
    yield* Effect.sleep("2 millis")
    const second = yield* claimOne(shop)
    assert.strictEqual(second.attempt, first.attempt)
    const before = yield* everything(shop)
    for (const on of ["unsent", "succeeded", "failed"] as const) yield* recordOne(shop, first, on)
    assert.deepStrictEqual(yield* everything(shop), before)
  })

  it.effect("have a lost lease in the log with its start and end", function* () {
    const shop = yield* openOne()
    yield* claimOne(shop)
    yield* reclaim(shop.sql, worker, minute)
    assert.strictEqual((yield* stateOf(shop)).status, "delivering")
    const [end = assert.fail()] = yield* shop.sql<{ readonly at: Date }>`
      UPDATE deliveries SET leased_until = now() - interval '1 second' WHERE project_id = ${shop.projectId}
      RETURNING leased_until AS at`
    yield* reclaim(shop.sql, worker, minute)
    const row = yield* stateOf(shop)
    assert.deepInclude(row, { status: "pending", attempts: 1, retries: 0 })
    const [entry = assert.fail()] = row.log
    assert.deepInclude(entry, { number: 1, statusCode: null, errorCode: "lease_lost", durationMs: null })
    assert.strictEqual(entry.startedAt, new Date(end.at.getTime() - minute).toISOString())
    assert.strictEqual(entry.finishedAt, row.availableAt?.toISOString())
    assert.strictEqual((yield* shop.health()).inFlight, 0)
  })

  it.effect("are taken over from a dead worker behind any number of endpoints that others lease", function* () {
    const shop = yield* openOne()
    const { projectId, sql } = shop
    yield* sql`
      INSERT INTO installations (project_id, id, name, status)
      SELECT ${projectId}::text, 'a' || n, 'Leased', 'active' FROM generate_series(1, 6000) n`
    yield* sql`
      INSERT INTO webhooks (project_id, installation_id, endpoint_url, event_types, enabled, version)
      SELECT project_id, id, 'http://127.0.0.1:9/', '{}', true, 1 FROM installations
      WHERE project_id = ${projectId} AND id LIKE 'a%'`
    yield* sql`
      INSERT INTO endpoint_health (project_id, installation_id, in_flight, worker_id)
      SELECT project_id, installation_id, 1, 2 FROM webhooks WHERE project_id = ${projectId} AND installation_id LIKE 'a%'`
    const dead = 7n
    assert.strictEqual((yield* claimFor(shop, ["shop"], { workerId: dead })).length, 1)
    const others: Worker["Service"] = { ...worker, isDead: (sql, column) => sql`${column} = ${dead}::bigint` }
    yield* reclaim(sql, others, minute)
    assert.strictEqual((yield* stateOf(shop)).status, "pending")
    // The others end with the test.
    yield* sql`UPDATE endpoint_health SET in_flight = 0, worker_id = NULL WHERE project_id = ${projectId}`
  })

  it.effect("are all taken over from a worker whose claim or results are committed beside the takeover", function* () {
    for (const beside of ["claim", "results"] as const) {
      const shop = yield* openOne()
      const { projectId, sql } = shop
      for (let n = 0; n < 3; n++) yield* shop.created()
      const leased = yield* claimFor(shop, ["shop"], { concurrency: beside === "claim" ? 1 : 4 })
      // The takeover waits for this lock after its snapshot, before it locks the row of the endpoint.
      const lock = sql`hashtext(${projectId})`
      const name = sql.literal(`"is_dead_${projectId}"`)
      yield* sql`
        CREATE FUNCTION ${name}(worker bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
          PERFORM pg_advisory_xact_lock(hashtext('${sql.literal(projectId)}'));
          RETURN worker = ${sql.literal(String(workerId))};
        END $$`
      const locked = yield* Deferred.make<void>()
      const other = yield* Effect.forkChild(
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT pg_advisory_xact_lock(${lock})`
            yield* Deferred.succeed(locked, undefined)
            const waiting = sql`
              SELECT FROM pg_locks WHERE locktype = 'advisory' AND objid = ${lock}::oid AND NOT granted`
            yield* untilRows(Effect.orDie(waiting), (rows) => rows.length === 1)
            if (beside === "claim") return yield* claimFor(shop)
            const results = leased.slice(0, 2).map((claim) => resultFor(claim, "succeeded"))
            return yield* recordAll(sql, results)
          })
        )
      )
      yield* Deferred.await(locked)
      const slow: Worker["Service"] = { ...worker, isDead: (sql, column) => sql`${name}(${column})` }
      yield* sql.withTransaction(reclaim(sql, slow, minute))
      yield* Fiber.join(other)
      // The next run takes over what this one did not see.
      yield* reclaim(sql, { ...worker, isDead: (sql, column) => sql`${column} = ${workerId}::bigint` }, minute)
      const states = (yield* shop.deliveries()).map(({ status }) => status)
      const delivered = beside === "claim" ? 0 : 2
      assert.strictEqual(states.filter((status) => status === "pending").length, 4 - delivered)
      assert.strictEqual(states.filter((status) => status === "delivered").length, delivered)
      assert.strictEqual((yield* shop.health()).inFlight, 0)
    }
  })

  it.effect("keep everything in flight to an endpoint with one worker", function* () {
    const shop = yield* openOne()
    for (let n = 0; n < 5; n++) yield* shop.created()
    const first = yield* claimFor(shop, ["shop"], { concurrency: 2 })
    assert.strictEqual(first.length, 2)
    assert.strictEqual((yield* claimFor(shop, ["shop"], { workerId: 2n })).length, 0)
    yield* recordAll(
      shop.sql,
      first.map((claim) => resultFor(claim, "succeeded"))
    )
    assert.strictEqual((yield* claimFor(shop, ["shop"], { workerId: 2n })).length, 4)
  })

  it.effect("keep the count in flight correct under concurrent claims, results and repairs", function* () {
    const server = yield* TestServer
    const names = ["a", "b", "c"]
    const project = yield* open(server, names)
    for (const name of names) yield* project.subscribe(name, "http://127.0.0.1:9/", ["crm.deal.created.v1"])
    yield* Effect.forEach(Array.from({ length: 30 }), () => project.created(), { concurrency: 10 })
    const { projectId, sql } = project
    const outcomes = ["succeeded", "failed", "released", "exhausted"] as const
    const work = Effect.fnUntraced(function* (n: number) {
      for (let round = 0; round < 25; round++) {
        const claims = yield* claimFor(project, names, { workerId: BigInt(n + 1) })
        if (round % 5 === 0) {
          yield* sql`
            UPDATE deliveries SET leased_until = now() - interval '1 second'
            WHERE project_id = ${projectId} AND status = 'delivering'`
        }
        yield* reclaim(sql, worker, minute)
        const results = claims.map((claim, index) => resultFor(claim, outcomes[(n + round + index) % 4] ?? "succeeded"))
        // Half of the workers record in reverse order.
        yield* recordAll(sql, n % 2 === 0 ? results : results.toReversed())
        if (round % 7 === n) yield* discard(sql)
      }
    }, Effect.orDie)
    yield* Effect.forEach([0, 1, 2, 3], work, { concurrency: "unbounded" })
    yield* sql`UPDATE deliveries SET leased_until = now() WHERE project_id = ${projectId} AND status = 'delivering'`
    yield* reclaim(sql, worker, minute)
    const rows = yield* project.deliveries()
    assert.strictEqual(rows.length, 90)
    assert.strictEqual(rows.filter(({ status }) => status === "delivering").length, 0)
    for (const name of names) assert.strictEqual((yield* project.health(name)).inFlight, 0)
    for (const { attempts, log } of rows) {
      assert.deepStrictEqual(
        log.map(({ number }) => number),
        Array.from({ length: attempts }, (_, index) => index + 1)
      )
    }
  })
})
