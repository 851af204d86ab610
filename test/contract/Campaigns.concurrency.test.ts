/** Concurrent commands on one campaign (contract §5, §9). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber } from "effect"
import { codeOf, receiptOf } from "../support/ContractAnswers.ts"
import { TestServer } from "../support/TestServer.ts"
import { everybody, open } from "./Campaigns.support.ts"
import { atOnce } from "./Clients.support.ts"

const freezing = { operation: "freeze_audience", filter: everybody }

/** A thousand clients, half of them duplicates by address, so that a freeze takes some time. */
const thousand = Array.from({ length: 1_000 }, (_, index) => ({
  id: `c${index}`,
  displayName: "C",
  marketingConsent: true,
  addresses: [{ channelId: "chat", address: `${Math.floor(index / 2)}` }]
}))

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("a campaign under concurrent commands", (it) => {
  it.effect("keeps one audience of several freezes, and none when the campaign is deleted", function* () {
    for (let round = 0; round < 4; round++) {
      const { audience, command, kept, recipients } = yield* open({ clients: thousand })
      const receipts = (yield* atOnce(8, () => command("spring", freezing))).map((answer) => receiptOf(answer, 200))
      assert.deepStrictEqual(
        receipts.map(({ version }) => version).toSorted((one, other) => one - other),
        [2, 3, 4, 5, 6, 7, 8, 9]
      )
      assert.strictEqual((yield* audience("spring")).audience?.eligibleCount, 500)
      assert.strictEqual((yield* recipients("spring")).length, 500)
      assert.strictEqual(yield* kept, 1)

      const answers = yield* atOnce(9, (index) =>
        command("spring", index % 2 === 0 ? freezing : { operation: "delete", expectedVersion: 9 + (index >> 1) })
      )
      const deleted = answers.filter((answer, index) => index % 2 === 1 && answer.status === 200).length
      assert.isAtMost(deleted, 1)
      for (const answer of answers) {
        assert.include([undefined, "version_conflict", "campaign_not_found"], codeOf(answer), answer.text)
      }
      assert.strictEqual(yield* kept, 1 - deleted)
    }
  })

  it.effect("delays no other request while its audience is frozen", function* () {
    const { sql } = yield* TestServer
    const calls = yield* open()
    const other = yield* open()
    const { resourceId: copy } = yield* calls.done("spring", { operation: "duplicate" })
    yield* sql`
      CREATE FUNCTION wait_for_the_test() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          WHILE NEW.project_id = TG_ARGV[0] AND NOT pg_try_advisory_xact_lock(4711) LOOP
            PERFORM pg_sleep(0.01);
          END LOOP;
          RETURN NEW;
        END
      $$`
    yield* sql`
      CREATE TRIGGER wait_for_the_test BEFORE INSERT ON campaign_recipients FOR EACH ROW
      EXECUTE FUNCTION wait_for_the_test(${sql.literal(`'${calls.projectId}'`)})`
    // Within a transaction, statistics are cached after the first read.
    const isWaiting = Effect.andThen(
      sql`SELECT pg_stat_clear_snapshot()`,
      Effect.map(
        sql`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`,
        (rows) => rows.length === 1
      )
    )
    const freeze = yield* Effect.gen(function* () {
      yield* sql`SELECT pg_advisory_xact_lock(4711)`
      const freeze = yield* Effect.forkScoped(calls.command("spring", freezing))
      yield* Effect.repeat(isWaiting, { until: (waiting) => waiting })
      // Another project, a read and another campaign are not delayed.
      receiptOf(yield* other.command("spring", freezing), 200)
      assert.strictEqual((yield* calls.audience("spring")).version, 1)
      receiptOf(yield* calls.command(copy, { operation: "bind_sender", channelId: "chat" }), 200)
      // Longer than a request may take otherwise.
      yield* Effect.sleep("4500 millis")
      // The trigger's loop is not always in `pg_sleep`.
      yield* Effect.repeat(isWaiting, { until: (waiting) => waiting })
      assert.isUndefined(freeze.pollUnsafe())
      return freeze
    }).pipe(sql.withTransaction)
    receiptOf(yield* Fiber.join(freeze), 200)
    assert.strictEqual((yield* calls.audience("spring")).audience?.eligibleCount, 1)
    yield* sql`DROP FUNCTION wait_for_the_test CASCADE`
  })
})
