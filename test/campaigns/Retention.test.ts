import { assert, layer } from "../support/Vitest.ts"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { eraseTexts, pruneAudiences } from "../../src/campaigns/Retention.ts"
import { settleMessage } from "../../src/messaging/MessageControl.ts"
import { Operator } from "../../src/operating/Audit.ts"
import { put } from "../support/Rows.ts"
import { makeProject } from "../support/Projects.ts"
import { prunersWith } from "../support/Pruners.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

const putAudience = Effect.fnUntraced(function* (project: string, id: string, size: number, abandoned: boolean) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO audiences (project_id, id, filter, candidate_count, eligible_count, merged, filter_mismatch,
      consent_not_granted, suppressed, channel_unavailable, duplicate, created_at, abandoned_at)
    VALUES (${project}, ${id}, '{}', ${size}, ${size}, 0, 0, 0, 0, 0, 0, now(),
      CASE WHEN ${abandoned}::boolean THEN '1900-01-01'::timestamptz END)`
  yield* sql`
    INSERT INTO campaign_recipients (project_id, audience_id, position, client_id)
    SELECT ${project}, ${id}, n, 'client' || n FROM generate_series(0, ${size - 1}::int) n`
})

/** Reads the remaining audiences, each with the number of its recipients. */
const remaining = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly line: string }>`
    SELECT audiences.project_id || ' ' || audiences.id || ' ' || count(position) AS line
    FROM audiences LEFT JOIN campaign_recipients recipient
      ON recipient.project_id = audiences.project_id AND recipient.audience_id = audiences.id
    GROUP BY audiences.project_id, audiences.id ORDER BY 1`
  return rows.map(({ line }) => line)
})

/** Inserts a campaign that has the audience of the same id and was last changed at a time. */
const putCampaign = Effect.fnUntraced(function* (project: string, id: string, status: string, at: Date) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO channels (project_id, id, source_id, provider_type, display_name, status, config, connected_at)
    VALUES (${project}, 'channel', 'source', 'sandbox', 'Channel', 'active', '\\x00', now()) ON CONFLICT DO NOTHING`
  yield* sql`
    INSERT INTO templates (project_id, id, version, name, body) VALUES (${project}, 'template', 1, 'T', 'Hello')
    ON CONFLICT DO NOTHING`
  yield* sql`
    INSERT INTO campaigns (project_id, id, name, status, primary_template_id, primary_template_version, primary_channel_id,
      audience_id, scheduled_for, sends_per_minute, created_at, updated_at)
    VALUES (${project}, ${id}, ${id}, ${status}, 'template', 1, 'channel', ${id}, ${at}, 1, ${at}, ${at})`
})

/** Inserts a project with an erasure without texts; returns the query of its erasures. */
const putErasures = Effect.fnUntraced(function* (project: string) {
  const sql = yield* SqlClient.SqlClient
  yield* makeProject(project)
  yield* sql`
    INSERT INTO erasures (project_id, id, client_id, conversation_ids) VALUES (${project}, 'erasure', 'client', '{}')`
  return sql<{ readonly passed: boolean }>`SELECT passed FROM erasures WHERE project_id = ${project}`
})

/** Messages of the recipients that are removed, and the status of each then. */
const messagesOfRecipients = [
  { status: "retrying", doubt: false, ends: "failed" },
  { status: "retrying", doubt: true, ends: "unknown" },
  { status: "unknown", doubt: true, ends: "unknown" },
  { status: "sent", doubt: false, ends: "sent" }
]

const pruner = prunersWith({ MESSAGE_RETENTION: "10d" })

layer(TestDatabase.layer)("the retention of audiences", (it) => {
  it.effect(
    "removes abandoned audiences of every project with all their recipients, and keeps the others",
    function* () {
      const sql = yield* SqlClient.SqlClient
      for (const project of ["a", "b"]) {
        yield* makeProject(project)
        yield* putAudience(project, "kept", 1_200, false)
        for (const [id, size] of [
          ["empty", 0],
          ["small", 3],
          ["batch", 1_000],
          ["large", 2_500]
        ] as const) {
          yield* putAudience(project, id, size, true)
        }
        // Abandoned since the retention, so it still leads to its messages.
        yield* putAudience(project, "recent", 3, true)
        yield* sql`UPDATE audiences SET abandoned_at = now() WHERE project_id = ${project} AND id = 'recent'`
      }
      const kept = ["a kept 1200", "a recent 0", "b kept 1200", "b recent 0"]

      yield* Layer.build(pruner)
      yield* remaining.pipe(Effect.repeat({ until: (lines) => lines.length === 4 && lines.includes("b recent 0") }))
      assert.deepStrictEqual(yield* remaining, kept)

      // The pruner runs again within a minute.
      yield* sql`UPDATE audiences SET abandoned_at = '1900-01-01' WHERE project_id = 'b'`
      yield* Effect.andThen(TestClock.adjust(Duration.minutes(1)), remaining).pipe(
        Effect.repeat({ until: (lines) => lines.length === 2 })
      )
      assert.deepStrictEqual(yield* remaining, ["a kept 1200", "a recent 0"])
    }
  )

  it.effect(
    "removes the recipients of campaigns that ended before the retention, and keeps their counts",
    function* () {
      const sql = yield* SqlClient.SqlClient
      const now = 100 * 86_400_000
      yield* TestClock.setTime(now)
      const at = (days: number) => new Date(now - days * 86_400_000)
      yield* makeProject("c")
      for (const [id, status, days] of [
        ["completed", "completed", 11],
        ["cancelled", "cancelled", 11],
        ["recent", "completed", 9.99],
        ["sending", "cancelled", 11],
        ["running", "running", 11]
      ] as const) {
        yield* putAudience("c", id, 1_500, false)
        yield* putCampaign("c", id, status, at(days))
      }
      yield* putAudience("c", "deleted", 1, true)
      yield* sql`
      UPDATE campaign_recipients SET status = 'sending'
      WHERE project_id = 'c' AND audience_id IN ('sending', 'deleted') AND position = 0`
      // The messages of the first recipients: those that wait end with their recipients, as no attempt follows.
      for (const [position, { doubt, ends, status }] of messagesOfRecipients.entries()) {
        yield* sql`
        INSERT INTO messages (project_id, id, campaign_id, audience_id, position, channel_id, provider_type, address, text,
          status, attempts, attempting, attempt_log, available_at, traceparent, created_at, updated_at)
        VALUES ('c', ${ends + position}, 'cancelled', 'cancelled', ${position}::int, 'channel', 'sandbox', 'a', 'Text', ${status},
          1, false, ${JSON.stringify([{ number: 1, status: doubt ? "unknown" : "retrying", nextAttemptAt: status === "sent" ? null : at(0) }])}::jsonb,
          NULL, '', now(), now())`
        yield* sql`
        UPDATE campaign_recipients SET message_id = ${ends + position},
          available_at = CASE WHEN ${status}::text <> 'sent' THEN ${at(0)}::timestamptz END
        WHERE project_id = 'c' AND audience_id = 'cancelled' AND position = ${position}::int`
      }
      const own = Effect.map(remaining, (lines) => lines.filter((line) => line.startsWith("c ")))

      yield* Layer.build(pruner)
      const left = [
        "c cancelled 0",
        "c completed 0",
        "c deleted 1",
        "c recent 1500",
        "c running 1500",
        "c sending 1500"
      ]
      yield* own.pipe(Effect.repeat({ until: (lines) => lines.filter((line) => line.endsWith(" 0")).length === 2 }))
      assert.deepStrictEqual(yield* own, left)
      const [audience] =
        yield* sql`SELECT eligible_count AS count FROM audiences WHERE project_id = 'c' AND id = 'completed'`
      assert.deepStrictEqual(audience, { count: 1_500 })

      const messages = yield* sql<{ readonly status: string; readonly next: string | null }>`
      SELECT status, attempt_log -> -1 ->> 'nextAttemptAt' AS next FROM messages WHERE project_id = 'c' ORDER BY position`
      assert.deepStrictEqual(
        messages,
        messagesOfRecipients.map(({ ends }) => ({ status: ends, next: null }))
      )

      yield* TestClock.adjust(Duration.minutes(15))
      yield* Effect.andThen(TestClock.adjust(Duration.minutes(1)), own).pipe(
        Effect.repeat({ until: (lines) => lines.includes("c recent 0") })
      )
      assert.include(yield* own, "c running 1500")

      // A recipient whose message is in the queue stays until it has taken up the outcome.
      yield* sql`UPDATE campaign_recipients SET status = 'sent' WHERE project_id = 'c' AND status = 'sending'`
      yield* Effect.andThen(TestClock.adjust(Duration.minutes(1)), own).pipe(
        Effect.repeat({
          until: (lines) => lines.includes("c sending 0") && lines.every((line) => !line.includes("deleted"))
        })
      )
    }
  )

  it.effect("keeps an abandoned audience for as long as its messages, so that an erase finds them", function* () {
    const sql = yield* SqlClient.SqlClient
    const now = 1_000 * 86_400_000
    yield* TestClock.setTime(now)
    const project = yield* makeProject("d")
    yield* putAudience("d", "running", 0, false)
    yield* putCampaign("d", "running", "running", new Date(now))
    yield* putAudience("d", "old", 0, true)
    yield* put(sql, "messages", {
      project_id: "d",
      id: "msg",
      audience_id: "old",
      campaign_id: "gone",
      channel_id: "channel",
      status: "unknown",
      attempt_log: [{ number: 1, status: "unknown", nextAttemptAt: null }]
    })
    const own = Effect.map(remaining, (lines) => lines.filter((line) => line.startsWith("d ")))
    yield* pruneAudiences(sql, new Date(now))
    assert.deepStrictEqual(yield* own, ["d old 0", "d running 0"])
    yield* settleMessage(project, "msg", "sent").pipe(Effect.provideService(Operator, { actor: "anna" }))
    yield* pruneAudiences(sql, new Date(now))
    assert.deepStrictEqual(yield* own, ["d old 0", "d running 0"])
    yield* pruneAudiences(sql, new Date(now + 1))
    assert.deepStrictEqual(yield* own, ["d running 0"])
  })

  it.effect("keeps an erasure for a minute of the database's time, whatever the clock of the process", function* () {
    const sql = yield* SqlClient.SqlClient
    const erasures = yield* putErasures("e")
    yield* TestClock.setTime(new Date("2100-01-01").getTime())
    yield* Layer.build(pruner)
    yield* erasures.pipe(Effect.repeat({ until: (rows) => rows.every(({ passed }) => passed) }))
    yield* TestClock.adjust(Duration.minutes(1))
    yield* TestClock.withLive(Effect.sleep("200 millis"))
    assert.lengthOf(yield* erasures, 1)
    yield* sql`UPDATE erasures SET erased_at = now() - interval '1 minute'`
    yield* Effect.andThen(TestClock.adjust(Duration.minutes(1)), erasures).pipe(
      Effect.repeat({ until: ({ length }) => length === 0 })
    )
  })

  it.effect("serves the erasures of a project although those of another fail", function* () {
    const sql = yield* SqlClient.SqlClient
    const [failing, other] = [yield* putErasures("f"), yield* putErasures("g")]
    yield* sql`
      CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN RAISE 'too much for one statement'; END
      $$`
    yield* sql`
      CREATE TRIGGER fail BEFORE UPDATE ON erasures FOR EACH ROW WHEN (OLD.project_id = 'f') EXECUTE FUNCTION fail()`
    // Each has one chance in two: 64 in a row do not all miss it.
    yield* Effect.repeat(Effect.ignore(eraseTexts(sql, 60_000)), { times: 64 })
    assert.deepStrictEqual([yield* failing, yield* other], [[{ passed: false }], [{ passed: true }]])
  })
})
