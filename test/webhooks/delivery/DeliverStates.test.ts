/** Moves between the states of a delivery by the statement of each move, and the fence that refuses stale results. */
import { assert } from "@effect/vitest"
import { Effect, Struct } from "effect"
import type { Worker } from "../../../src/work/Worker.ts"
import type { Claim } from "../../../src/webhooks/delivery/Attempt.ts"
import { discard, expire } from "../../../src/webhooks/delivery/DeliveryMaintenance.ts"
import { reclaim } from "../../../src/webhooks/delivery/Recovery.ts"
import type { Result } from "../../../src/webhooks/delivery/Attempt.ts"
import { returnedBy } from "../../../src/webhooks/delivery/DeliveryLoop/Results.ts"
import { deliveries, type Move, type State, states } from "../../../src/webhooks/delivery/States.ts"
import { leaseOf, recordAll } from "../../support/Claims.ts"
import { enable } from "../../support/Events.ts"
import { changedMeanwhile, holding } from "../../support/Locks.ts"
import { put } from "../../support/Rows.ts"
import { layerOf } from "./Deliveries.support.ts"
import { openDue, worker, workerId } from "./Due.support.ts"

const minute = 60_000
const day = 24 * 60 * minute
type Shop = Effect.Success<ReturnType<typeof openDue>>

const claimOne = Effect.fnUntraced(function* (shop: Shop) {
  const claims = yield* shop.claimed()
  assert.strictEqual(claims.length, 1)
  return claims[0] ?? assert.fail()
})

const resultFor = (claim: Claim, on: Result["on"]): Result => ({
  ...returnedBy(leaseOf(claim), "unsent", { startedAt: 0, finishedAt: 5 }),
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

/** Makes the project's deliveries older. */
const age = ({ projectId, sql }: Shop, by: string) =>
  Effect.orDie(sql`UPDATE deliveries SET created_at = created_at - ${by}::interval WHERE project_id = ${projectId}`)

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
      coalesce(leased_until, now()) AS "leasedUntil", 'https://shop.example.com' AS "endpointUrl", 1 AS version
    FROM deliveries WHERE project_id = ${shop.projectId}`
  return row ?? assert.fail()
}, Effect.orDie)

const recorded = (on: Result["on"]) => (shop: Shop) =>
  Effect.flatMap(current(shop), (claim) => recordOne(shop, claim, on))

/** The statement of each move, run on the delivery whatever its state. */
const run: Readonly<Record<Move, (shop: Shop) => Effect.Effect<unknown>>> = {
  claimed: (shop) => shop.claimed(4, { named: [] }),
  succeeded: recorded("succeeded"),
  failed: recorded("failed"),
  exhausted: recorded("exhausted"),
  released: recorded("released"),
  unsent: recorded("unsent"),
  lease_lost: (shop) => Effect.andThen(endLeases(shop), Effect.orDie(reclaim(shop.sql, worker, minute))),
  disabled: ({ projectId, setHealth, sql }) =>
    enable(sql, projectId, "shop", false).pipe(
      Effect.andThen(setHealth("discarding = true")),
      Effect.andThen(Effect.orDie(discard(sql))),
      Effect.andThen(enable(sql, projectId, "shop", true))
    ),
  expired: (shop) =>
    age(shop, "2 days").pipe(Effect.andThen(Effect.orDie(expire(shop.sql, day))), Effect.andThen(age(shop, "-2 days"))),
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
        const shop = yield* openDue()
        // A new delivery is found by its notice; after the first claim, by the mark of its endpoint.
        yield* Effect.flatMap(
          shop.claimed(),
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
      const shop = yield* openDue()
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

  it.effect("have a lost lease in the log with its start and end", function* () {
    const shop = yield* openDue()
    yield* claimOne(shop)
    yield* age(shop, "1 hour")
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

  it.effect(
    "keep the newest 30 attempts in the log, and the answers of the newest five, whatever they were",
    function* () {
      const shop = yield* openDue()
      const responseBody = "x".repeat(1_024)
      for (let n = 1; n <= 45; n++) {
        const claim = yield* claimOne(shop)
        if (n % 9 === 0) yield* run.lease_lost(shop)
        else yield* recordAll(shop.sql, [{ ...resultFor(claim, "failed"), responseBody, strikes: 0 }])
      }
      const { attempts, log } = yield* stateOf(shop)
      assert.strictEqual(attempts, 45)
      assert.deepStrictEqual(
        log.map(({ number }) => number),
        Array.from({ length: 30 }, (_, n) => 16 + n)
      )
      // The last attempt is a lost lease, which has no answer.
      assert.deepStrictEqual(
        log.flatMap(({ number, responseBody }) => (responseBody === undefined ? [] : [number])),
        [41, 42, 43, 44]
      )
    }
  )

  it.effect("have no attempt in the log that began before the delivery was created", function* () {
    const shop = yield* openDue()
    yield* claimOne(shop)
    yield* run.lease_lost(shop)
    const [{ at } = assert.fail()] = yield* shop.sql<{ readonly at: Date }>`
      SELECT created_at AS at FROM deliveries WHERE project_id = ${shop.projectId}`
    assert.strictEqual((yield* stateOf(shop)).log[0]?.startedAt, at.toISOString())
  })

  it.effect("are taken over from a dead worker behind any number of endpoints that others lease", function* () {
    const shop = yield* openDue()
    const { projectId, sql } = shop
    const leased = Array.from({ length: 6_000 }, (_, n) => ({ project_id: projectId, installation_id: `a${n}` }))
    yield* put(sql, "installations", ...leased.map((of) => ({ project_id: projectId, id: of.installation_id })))
    yield* put(sql, "webhooks", ...leased)
    yield* put(sql, "endpoint_health", ...leased.map((of) => ({ ...of, in_flight: 1, worker_id: 2 })))
    const dead = 7n
    assert.strictEqual((yield* shop.claimed(4, { workerId: dead })).length, 1)
    const others: Worker["Service"] = { ...worker, isDead: (sql, column) => sql`${column} = ${dead}::bigint` }
    yield* reclaim(sql, others, minute)
    assert.strictEqual((yield* stateOf(shop)).status, "pending")
    // The others end with the test.
    yield* sql`UPDATE endpoint_health SET in_flight = 0, worker_id = NULL WHERE project_id = ${projectId}`
  })

  it.effect("are all taken over from a worker whose claim or results are committed beside the takeover", function* () {
    for (const beside of ["claim", "results", "claim after a lease has ended"] as const) {
      const isDead = beside !== "claim after a lease has ended"
      const shop = yield* openDue(4)
      const { projectId, sql } = shop
      const leased = yield* shop.claimed(beside === "results" ? 4 : 1)
      if (!isDead) yield* endLeases(shop)
      // The takeover waits for this lock after its snapshot, before it locks the row of the endpoint.
      const name = sql.literal(`"is_dead_${projectId}"`)
      yield* sql`
        CREATE FUNCTION ${name}(worker bigint) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
          PERFORM pg_advisory_xact_lock(hashtext('${sql.literal(projectId)}'));
          RETURN ${sql.literal(String(isDead))} AND worker = ${sql.literal(String(workerId))};
        END $$`
      const slow: Worker["Service"] = { ...worker, isDead: (sql, column) => sql`${name}(${column})` }
      const results = leased.slice(0, 2).map((claim) => resultFor(claim, "succeeded"))
      yield* changedMeanwhile(
        sql,
        projectId,
        sql.withTransaction(reclaim(sql, slow, minute)),
        beside === "results" ? recordAll(sql, results) : shop.claimed()
      )
      // The next run takes over what this one did not see.
      yield* reclaim(sql, slow, minute)
      const found = (yield* shop.deliveries()).map(({ status }) => status).toSorted()
      const expected = {
        claim: ["pending", "pending", "pending", "pending"],
        results: ["delivered", "delivered", "pending", "pending"],
        "claim after a lease has ended": ["delivering", "delivering", "delivering", "pending"]
      }
      assert.deepStrictEqual(found, expected[beside])
      assert.strictEqual((yield* shop.health()).inFlight, isDead ? 0 : 3)
      yield* endLeases(shop)
      yield* reclaim(sql, worker, minute)
    }
  })

  it.effect("are taken over, but for what another transaction has locked, which a later run takes over", function* () {
    const [shop, neighbour] = [yield* openDue(3), yield* openDue(1)]
    const { projectId, sql } = shop
    assert.strictEqual((yield* shop.claimed()).length, 3)
    assert.strictEqual((yield* neighbour.claimed()).length, 1)
    const dead: Worker["Service"] = { ...worker, isDead: (sql, column) => sql`${column} = ${workerId}::bigint` }
    const pending = (project: Shop) =>
      Effect.map(project.deliveries(), (rows) => rows.filter(({ status }) => status === "pending").length)
    const { release } = yield* holding(
      sql,
      sql`SELECT FROM deliveries WHERE project_id = ${projectId} ORDER BY id LIMIT 1 FOR UPDATE`
    )
    yield* reclaim(sql, dead, minute)
    assert.deepStrictEqual([yield* pending(shop), yield* pending(neighbour)], [2, 1])
    assert.strictEqual((yield* shop.health()).inFlight, 1)
    yield* release
    yield* reclaim(sql, dead, minute)
    assert.strictEqual(yield* pending(shop), 3)
    assert.strictEqual((yield* shop.health()).inFlight, 0)
  })

  it.effect("keep everything in flight to an endpoint with one worker", function* () {
    const shop = yield* openDue(6)
    const first = yield* shop.claimed(2)
    assert.strictEqual(first.length, 2)
    assert.strictEqual((yield* shop.claimed(4, { workerId: 2n })).length, 0)
    yield* recordAll(
      shop.sql,
      first.map((claim) => resultFor(claim, "succeeded"))
    )
    assert.strictEqual((yield* shop.claimed(4, { workerId: 2n })).length, 4)
  })
})
