/** Every move of a delivery's life, by the statement that makes it, and the fence that stale results don't pass. */
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { claim, type Claim } from "../../src/integrations/Deliveries/Claims.ts"
import { extend, giveUp, reclaim } from "../../src/integrations/Deliveries/Repairs.ts"
import { record, type Result } from "../../src/integrations/Deliveries/Results.ts"
import { moves, type State, states } from "../../src/integrations/Deliveries/States.ts"
import { TestServer } from "../support/TestServer.ts"
import { enable } from "../support/Events.ts"
import { open, settings } from "./Deliveries.support.ts"

type On = (typeof moves)[number]["on"]

const minute = 60_000

/** A project with one due delivery, and no worker but the test; times are the test's. */
const openOne = Effect.fnUntraced(function* () {
  const server = yield* TestServer
  const project = yield* open(server)
  yield* project.subscribe("shop", "http://127.0.0.1:9/", ["crm.deal.created.v1"])
  yield* project.created()
  const start = Date.now() + minute
  return { ...project, start, now: new Date(start), leaseEnd: new Date(start + minute) }
})
type Shop = Effect.Success<ReturnType<typeof openOne>>

const claimAt = (sql: SqlClient.SqlClient, projectId: string, now: Date) =>
  Effect.map(
    Effect.orDie(
      claim(sql, {
        now,
        leaseEnd: new Date(now.getTime() + minute),
        slots: 1_000,
        endpointConcurrency: 4,
        holder: "test"
      })
    ),
    (claims) => claims.filter((claim) => claim.projectId === projectId)
  )

const claimOne = Effect.fnUntraced(function* (shop: Shop) {
  const claims = yield* claimAt(shop.sql, shop.projectId, shop.now)
  assert.strictEqual(claims.length, 1)
  return claims[0] ?? assert.fail()
})

const resultFor = (
  { attempt, id, installationId, projectId }: Claim,
  on: Result["on"],
  { now }: Pick<Shop, "now">
): Result => ({
  projectId,
  installationId,
  id,
  attempt,
  on,
  statusCode: on === "succeeded" ? 200 : null,
  errorCode: on === "succeeded" ? null : "timeout",
  startedAt: now,
  finishedAt: now,
  availableAt: on === "failed" || on === "released" || on === "unsent" ? now : null,
  restUntil: null,
  spread: 1
})

/** Records, and claims nothing. */
const recordAll = ({ sql }: Shop, results: ReadonlyArray<Result>, now: Date) =>
  record(sql, results, { now, leaseEnd: now, slots: 0, endpointConcurrency: 4, ahead: 4, holder: "test" })

const recordOne = (shop: Shop, claim: Claim, on: Result["on"]) =>
  Effect.orDie(recordAll(shop, [resultFor(claim, on, shop)], shop.now))

/** Brings a new delivery into a state by the shortest way. */
const bring: Readonly<Record<State, (shop: Shop) => Effect.Effect<unknown>>> = {
  pending: () => Effect.void,
  delivering: claimOne,
  delivered: (shop) => Effect.flatMap(claimOne(shop), (claim) => recordOne(shop, claim, "succeeded")),
  dead: (shop) => Effect.flatMap(claimOne(shop), (claim) => recordOne(shop, claim, "exhausted"))
}

/** The current attempt of the project's delivery, whatever its state. */
const current = Effect.fnUntraced(function* (shop: Shop) {
  const [row] = yield* shop.sql<Claim>`
    SELECT project_id AS "projectId", installation_id AS "installationId", id, attempts AS attempt
    FROM deliveries WHERE project_id = ${shop.projectId}`
  return row ?? assert.fail()
}, Effect.orDie)

const recorded = (on: Result["on"]) => (shop: Shop) =>
  Effect.flatMap(current(shop), (claim) => recordOne(shop, claim, on))

/** The statement of each move, run on the delivery whatever state it is in. */
const run: Readonly<Record<On, (shop: Shop) => Effect.Effect<unknown>>> = {
  claimed: ({ now, projectId, sql }) => claimAt(sql, projectId, now),
  succeeded: recorded("succeeded"),
  failed: recorded("failed"),
  exhausted: recorded("exhausted"),
  released: recorded("released"),
  unsent: recorded("unsent"),
  lease_lost: ({ leaseEnd, sql }) => Effect.orDie(reclaim(sql, leaseEnd, minute)),
  disabled: ({ now, projectId, sql }) =>
    enable(sql, projectId, "shop", false).pipe(
      Effect.andThen(Effect.orDie(giveUp(sql, now))),
      Effect.andThen(enable(sql, projectId, "shop", true))
    ),
  retried: (shop) => Effect.flatMap(current(shop), ({ id }) => shop.retry("shop", id))
}

/** All that is stored of a delivery and of its endpoint. */
const everything = (shop: Shop) =>
  Effect.orDie(shop.sql`
    SELECT to_jsonb(deliveries) AS delivery, to_jsonb(health) - 'served_at' AS health
    FROM deliveries JOIN endpoint_health health USING (project_id, installation_id)
    WHERE project_id = ${shop.projectId}`)

const stateOf = (shop: Shop) => Effect.map(shop.deliveries(), ([row]) => row ?? assert.fail())

const isOnTheWay = (state: State) => (state === "delivering" ? 1 : 0)

layer(TestServer.layer(settings, "api"), { excludeTestServices: true })("the life of a delivery", (it) => {
  for (const from of states) {
    for (const [on, act] of Object.entries(run)) {
      const move = moves.find((move) => move.on === on && move.from === from)
      const title = move === undefined ? `${from} is not ${on}` : `${from} → ${move.to}, ${on}`
      it.effect(title, () =>
        Effect.gen(function* () {
          const shop = yield* openOne()
          yield* bring[from](shop)
          assert.strictEqual((yield* stateOf(shop)).status, from)
          const before = yield* everything(shop)
          yield* act(shop)
          const after = yield* stateOf(shop)
          assert.strictEqual(after.status, move?.to ?? from)
          if (move === undefined) assert.deepStrictEqual(yield* everything(shop), before)
          assert.strictEqual(after.availableAt !== null, ["pending", "delivering"].includes(after.status))
          assert.strictEqual(after.finishedAt !== null, ["delivered", "dead"].includes(after.status))
          assert.strictEqual((yield* shop.health()).inFlight, isOnTheWay(after.status))
        })
      )
    }
  }

  it.effect("takes no result of an attempt that has lost its lease, nor prolongs its lease", () =>
    Effect.gen(function* () {
      for (const on of ["succeeded", "failed", "exhausted", "released"] as const) {
        const shop = yield* openOne()
        const stale = yield* claimOne(shop)
        const other = { ...shop, now: shop.leaseEnd }
        yield* run.lease_lost(shop)
        const beforeClaim = yield* everything(shop)
        yield* recordOne(shop, stale, on)
        yield* extend(shop.sql, [stale], new Date(shop.start + 10 * minute))
        assert.deepStrictEqual(yield* everything(shop), beforeClaim, `${on} while it waits`)

        const claim = yield* claimOne(other)
        assert.deepStrictEqual([stale.attempt, claim.attempt, claim.id], [1, 2, stale.id])
        const before = yield* everything(shop)
        yield* recordOne(shop, stale, on)
        yield* extend(shop.sql, [stale], new Date(shop.start + 10 * minute))
        assert.deepStrictEqual(yield* everything(shop), before, `${on} while another has it`)

        // Both in one batch: only that of the lease in force counts, once.
        const results = [resultFor(stale, on, shop), resultFor(claim, "succeeded", other)]
        yield* recordAll(shop, results, other.now)
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

        // And twice the same is once.
        const done = yield* everything(shop)
        yield* recordOne(other, claim, "succeeded")
        yield* recordOne(other, claim, "failed")
        assert.deepStrictEqual(yield* everything(shop), done)
      }
    })
  )

  it.effect("keeps a lease that is prolonged, and tells when a lost one began and ended", () =>
    Effect.gen(function* () {
      const shop = yield* openOne()
      const claim = yield* claimOne(shop)
      const end = new Date(shop.start + 3 * minute)
      yield* extend(shop.sql, [claim], end)
      yield* reclaim(shop.sql, new Date(end.getTime() - 1), minute)
      assert.strictEqual((yield* stateOf(shop)).status, "delivering")
      yield* reclaim(shop.sql, end, minute)
      const row = yield* stateOf(shop)
      assert.deepInclude(row, { status: "pending", attempts: 1, retries: 0, availableAt: end })
      assert.deepStrictEqual(row.log, [
        {
          number: 1,
          startedAt: new Date(end.getTime() - minute).toISOString(),
          finishedAt: end.toISOString(),
          statusCode: null,
          errorCode: "lease_lost",
          durationMs: null
        }
      ])
      assert.strictEqual((yield* shop.health()).inFlight, 0)
    })
  )

  it.effect("counts what is in flight right, however claims, results and repairs meet", () =>
    Effect.gen(function* () {
      const server = yield* TestServer
      const names = ["a", "b", "c"]
      const project = yield* open(server, names)
      for (const name of names) yield* project.subscribe(name, "http://127.0.0.1:9/", ["crm.deal.created.v1"])
      yield* Effect.forEach(Array.from({ length: 30 }), () => project.created(), { concurrency: 10 })
      const { projectId, sql } = project
      const start = Date.now() + minute
      const outcomes = ["succeeded", "failed", "released", "exhausted"] as const
      const worker = Effect.fnUntraced(function* (n: number) {
        for (let round = 0; round < 25; round++) {
          const now = new Date(start + round * 1_000)
          const claims = yield* claimAt(sql, projectId, now)
          yield* reclaim(sql, new Date(now.getTime() + (round % 5 === 0 ? minute : 0)), minute)
          const results = claims.map((claim, index) =>
            resultFor(claim, outcomes[(n + round + index) % 4] ?? "succeeded", { now })
          )
          // In an order of its own, as other workers have it.
          yield* record(sql, n % 2 === 0 ? results : results.toReversed(), {
            now,
            leaseEnd: new Date(now.getTime() + minute),
            slots: round % 3 === 0 ? 5 : 0,
            endpointConcurrency: 4,
            ahead: 8,
            holder: `worker ${n}`
          })
          if (round % 7 === n) yield* giveUp(sql, now)
        }
      }, Effect.orDie)
      yield* Effect.forEach([0, 1, 2, 3], worker, { concurrency: "unbounded" })
      yield* reclaim(sql, new Date(start + 100 * minute), minute)
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
  )
})
