/** A delivery that was claimed ahead uses the webhook's configuration at the time of the send (contract §10). */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { TestServer } from "../../support/TestServer.ts"
import { type Answering, type Hit, ok, open, receiver, layerOf, verifies } from "./Deliveries.support.ts"
import { until, untilRows } from "../../support/Waiting.ts"

const inAll = 80
const answered = 20
/** Number of deliveries that are sent to an endpoint at a time. */
const width = 4

/** Opens a webhook whose endpoint answers some deliveries and holds the next answers; the others are claimed ahead. */
const openAhead = Effect.gen(function* () {
  const held: Array<Hit> = []
  let holding = true
  const answer: Answering = (hit, n) => void (holding && n >= answered ? held.push(hit) : ok(hit, n))
  const shop = yield* receiver(answer)
  const project = yield* open(yield* TestServer)
  const secret = yield* project.subscribe("shop", shop.url)
  const rest = (until: "infinity" | "-infinity") =>
    Effect.orDie(project.sql`
      UPDATE endpoint_health SET resting_until = ${until}::timestamptz WHERE project_id = ${project.projectId}`)
  yield* rest("infinity")
  for (let n = 1; n < inAll; n++) yield* project.created()
  yield* rest("-infinity")
  yield* project.created()
  yield* until(() => held.length === width)
  // Otherwise nothing was claimed ahead.
  assert.isAbove((yield* project.health()).inFlight, width)
  const leases = Effect.orDie(project.sql<{ readonly end: Date }>`
    SELECT leased_until AS end FROM deliveries WHERE project_id = ${project.projectId} AND status = 'delivering'`)
  const before = Math.max(...(yield* leases).map(({ end }) => end.getTime()))
  return {
    ...project,
    shop,
    secret,
    /** Waits until all deliveries that were claimed ahead are returned, then sends the held answers. */
    release: untilRows(leases, (rows) => rows.filter(({ end }) => end.getTime() <= before).length === width).pipe(
      Effect.andThen(
        Effect.sync(() => {
          holding = false
          for (const [n, hit] of held.entries()) ok(hit, n)
        })
      ),
      Effect.andThen(project.finished)
    )
  }
})

const idsOf = (hits: ReadonlyArray<Hit>) => hits.map(({ headers }) => String(headers["webhook-id"]))

layerOf({ WEBHOOK_TIMEOUT: "60s" })("a delivery that is claimed ahead", (it) => {
  it.effect("goes to the webhook's current URL at its first attempt", function* () {
    const { configure, deliveries, release, shop } = yield* openAhead
    const next = yield* receiver()
    assert.strictEqual((yield* configure("shop", next.url, 1)).status, 200)
    yield* release
    assert.strictEqual(shop.hits.length, answered + width)
    assert.strictEqual(new Set(idsOf([...shop.hits, ...next.hits])).size, inAll)
    assert.strictEqual(next.hits.length, inAll - answered - width)
    for (const { attempts, log, status } of yield* deliveries()) {
      assert.deepStrictEqual([status, attempts, log.length], ["delivered", 1, 1])
    }
  })

  it.effect("is signed with the current secret", function* () {
    const { release, rotate, secret, shop } = yield* openAhead
    const rotated = yield* rotate("shop", 1)
    yield* release
    assert.strictEqual(shop.hits.length, inAll)
    for (const [n, hit] of shop.hits.entries()) {
      assert.deepStrictEqual([verifies(rotated, hit), verifies(secret, hit)], [n >= answered + width, true])
    }
  })
})
