/** Why recipients failed, and the retry of those that failed by an operator (contract §9, `campaigns retry-failed`). */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Redacted, Schema } from "effect"
import { json, taken } from "../contract/Messages.support.ts"
import { at, documentOf, run } from "../cli/Cli.support.ts"
import type { Answering, Hit } from "../webhooks/delivery/Deliveries.support.ts"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { settle } from "../../src/messaging/MessageControl.ts"
import { campaignOf as campaignIn } from "../support/CampaignAnswers.ts"
import { changedMeanwhile } from "../support/Locks.ts"
import { TestServer } from "../support/TestServer.ts"
import { untilRows } from "../support/Waiting.ts"
import { accepted, scene, unclear } from "./Runner.scene.support.ts"
import { addressOf, campaignOf, type Plan, provider, sendOf } from "./Runner.support.ts"

const decodeRetried = Schema.decodeUnknownSync(
  Schema.Struct({ campaignId: Schema.String, status: Schema.String, retried: Schema.Int })
)
const decodeQuestion = Schema.decodeUnknownSync(Schema.Struct({ message: Schema.String }))

/** Returns the command that retries the failed recipients of a project's campaign. */
const retryIn = ({ databaseUrl }: TestServer["Service"], projectId: string) => {
  const env = at(Redacted.make(databaseUrl))
  const retry = (...flags: ReadonlyArray<string>) =>
    run(["campaigns", "retry-failed", "--project", projectId, "--campaign", "cmp", ...flags, "--json"], { env })
  return { retry, retried: Effect.map(Effect.suspend(retry), (ended) => decodeRetried(documentOf(ended))) }
}

/** Opens a scheduled campaign; returns it with the commands of operators. */
const start = Effect.fnUntraced(function* (plan: Plan) {
  const server = yield* TestServer
  const campaign = yield* campaignOf(server, { ...plan, status: "scheduled", scheduledIn: 3_600_000 })
  const { projectId, token } = campaign
  const env = at(Redacted.make(server.databaseUrl))
  return {
    ...campaign,
    ...retryIn(server, projectId),
    read: Effect.map(server.send({ path: "/api/v1/developer/campaigns/cmp", token }), campaignIn),
    audit: Effect.map(run(["audit", "list", "--project", projectId, "--json"], { env }), ({ stdout }) => stdout),
    completed: Effect.andThen(campaign.begin, campaign.settled("completed")),
    messages: Effect.orDie(server.sql<{ readonly id: string; readonly address: string; readonly status: string }>`
      SELECT id, address, status FROM messages WHERE project_id = ${projectId} ORDER BY created_at, id`)
  }
})

const recipientOf = (hit: Hit) => sendOf(hit).recipient
const indexOf = (hit: Hit) => Number(recipientOf(hit).replace(/^\D+/, ""))

/** Answers by the index of the recipient; the others are accepted. */
const answering =
  (by: (index: number, n: number) => Answering | undefined): Answering =>
  (hit, n) =>
    (by(indexOf(hit), n) ?? taken)(hit, n)

layer(TestServer.layer(), { excludeTestServices: true })("a failed recipient", (it) => {
  it.effect("is counted by its reason, and gets another message when it is retried, as nobody else does", function* () {
    let isRepaired = false
    const { hits, url } = yield* provider(
      answering((index) => {
        if (isRepaired || index > 4) return undefined
        return json(index < 3 ? 403 : 422, {})
      })
    )
    const { audit, completed, messages, projectId, read, recipients, retried, settled, sql } = yield* start({
      recipients: 11,
      primary: url
    })
    // One is of unknown outcome, and nothing reaches another.
    yield* Effect.orDie(sql`
      UPDATE campaign_recipients SET status = 'unknown' WHERE project_id = ${projectId} AND position = 9`)
    yield* Effect.orDie(sql`
      DELETE FROM client_addresses WHERE project_id = ${projectId} AND address = ${addressOf(10)}`)
    yield* completed
    const { progress, version } = yield* read
    assert.deepStrictEqual(progress, {
      recipients: 11,
      pending: 0,
      sent: 4,
      failed: 6,
      unknown: 1,
      skipped: 0,
      failures: [
        { errorCode: "http_403", count: 3 },
        { errorCode: "http_422", count: 2 },
        { errorCode: "unreachable", count: 1 }
      ]
    })

    isRepaired = true
    const before = hits.length
    const first = yield* messages
    assert.deepStrictEqual(yield* retried, { campaignId: "cmp", status: "running", retried: 6 })
    yield* settled("completed")
    const after = yield* read
    const failures = [{ errorCode: "unreachable", count: 1 }]
    assert.deepInclude(after.progress, { sent: 9, failed: 1, unknown: 1, failures })
    assert.isAbove(after.version, version)
    assert.sameMembers(
      hits.slice(before).map(recipientOf),
      [0, 1, 2, 3, 4].map((index) => addressOf(index))
    )
    // Other messages, so the provider takes none for a repetition; the former ones stay as they were.
    const all = yield* messages
    for (const message of first) assert.deepInclude(all, message)
    assert.lengthOf(all, first.length + 5)
    assert.strictEqual(new Set(hits.map((hit) => sendOf(hit).messageId)).size, hits.length)
    assert.lengthOf(
      (yield* recipients).filter(({ status }) => status === "unknown"),
      1
    )
    assert.match(yield* audit, /"action": ?"campaign.retry_failed"/)
  })

  it.effect("keeps the reason of its primary route if the fallback route does not reach it", function* () {
    const { url } = yield* provider(json(404, {}))
    const other = yield* provider()
    const { completed, projectId, read, sql } = yield* start({ recipients: 2, primary: url, fallback: other.url })
    yield* Effect.orDie(sql`DELETE FROM client_addresses WHERE project_id = ${projectId} AND channel_id = 'fallback'`)
    yield* completed
    assert.deepStrictEqual((yield* read).progress.failures, [{ errorCode: "http_404", count: 2 }])
  })

  it.effect("is retried again and again, each time with another message", function* () {
    const { hits, url } = yield* provider(json(403, {}))
    const { completed, read, retried, settled } = yield* start({ recipients: 1, primary: url })
    yield* completed
    for (let n = 0; n < 3; n++) {
      assert.deepInclude(yield* retried, { retried: 1 })
      yield* settled("completed")
    }
    assert.strictEqual(new Set(hits.map((hit) => sendOf(hit).messageId)).size, 4)
    assert.deepStrictEqual((yield* read).progress.failures, [{ errorCode: "http_403", count: 1 }])
  })

  it.effect("is sent to if it is retried while the statement that completes its campaign runs", function* () {
    const { url } = yield* provider()
    const { campaign, projectId, recipients, retried, sql } = yield* start({ recipients: 1, primary: url })
    const other = yield* start({ recipients: 1, primary: url })
    yield* Effect.orDie(sql`UPDATE campaign_recipients SET status = 'failed' WHERE project_id = ${projectId}`)
    // The statement starts the other campaign first, and waits there: what it reads is from before the retry.
    yield* Effect.orDie(sql`
      CREATE FUNCTION wait_for_test() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          PERFORM set_config('lock_timeout', '0', true), pg_advisory_xact_lock(hashtext('retry'));
          RETURN NEW;
        END
      $$`)
    yield* Effect.orDie(sql`
      CREATE TRIGGER wait_for_test BEFORE UPDATE ON campaigns FOR EACH ROW
      WHEN (OLD.status = 'scheduled' AND NEW.status = 'running' AND OLD.scheduled_for = 'epoch') EXECUTE FUNCTION wait_for_test()`)
    const begin = sql`
      UPDATE campaigns SET status = CASE project_id WHEN ${projectId} THEN 'running' ELSE status END,
        scheduled_for = 'epoch', resumed_at = now()
      WHERE project_id IN (${projectId}, ${other.projectId})`
    const started = Effect.andThen(
      begin,
      untilRows(other.campaign, ({ status }) => status !== "scheduled")
    )
    yield* changedMeanwhile(sql, "retry", started, retried)
    const found = yield* untilRows(Effect.zip(campaign, recipients), ([{ status }]) => status === "completed")
    assert.deepInclude(found[1], { status: "sent", route: "primary", attempts: 1, inDoubt: false })
  })

  it.effect("is not retried in a cancelled campaign, and skipped if it has withdrawn consent", function* () {
    const { hits, url } = yield* provider(json(403, {}))
    const { completed, projectId, read, retried, retry, settled, sql } = yield* start({ recipients: 2, primary: url })
    yield* completed
    yield* Effect.orDie(sql`UPDATE clients SET marketing_consent = false WHERE project_id = ${projectId}`)
    assert.deepInclude(yield* retried, { retried: 2 })
    yield* settled("completed")
    assert.deepInclude((yield* read).progress, { failed: 0, skipped: 2, failures: [] })
    assert.lengthOf(hits, 2)
    const { version } = yield* read
    assert.deepInclude(yield* retried, { status: "completed", retried: 0 })
    assert.strictEqual((yield* read).version, version)
    yield* Effect.orDie(sql`UPDATE campaigns SET status = 'cancelled' WHERE project_id = ${projectId}`)
    const refused = yield* retry()
    assert.deepStrictEqual([refused.status, refused.stdout], [1, ""])
    assert.include(refused.stderr, "cancelled")
  })
})

layer(TestServer.layer({}, "api"), { excludeTestServices: true })("campaigns retry-failed", (it) => {
  it.effect("sends to a recipient whose message of unknown outcome was settled as failed", function* () {
    const server = yield* TestServer
    // Over `http` the message waits for another attempt when it is settled, over `telegram` none follows.
    for (const [primaryType, before] of [
      ["http", "pending primary 1 in doubt"],
      ["telegram", "unknown primary 1 in doubt"]
    ] as const) {
      const { claimed, projectId, record, recipientState, sql } = yield* scene({ primaryType })
      const first = yield* claimed(0)
      yield* record(first, unclear)
      assert.strictEqual(yield* recipientState, before)
      yield* settle(sql, ProjectId.make(projectId), first.messageId, "settled_failed", new Date(), "tester")
      assert.deepInclude(yield* retryIn(server, projectId).retried, { retried: 1 })
      const second = yield* claimed(3_600_000)
      assert.notStrictEqual(second.messageId, first.messageId)
      assert.deepInclude(second, { number: 1, inDoubt: false })
      yield* record(second, accepted)
      assert.strictEqual(yield* recipientState, "sent primary 1")
    }
  })

  it.effect("says which recipients get another message, and that no other does", function* () {
    const { projectId, retry, sql } = yield* start({ recipients: 3, primary: "http://127.0.0.1:9/" })
    yield* Effect.orDie(sql`
      UPDATE campaign_recipients SET status = 'failed', error_code = 'http_403' WHERE project_id = ${projectId} AND position < 2`)
    yield* Effect.orDie(sql`UPDATE campaigns SET status = 'completed' WHERE project_id = ${projectId}`)
    const { message } = decodeQuestion(documentOf(yield* retry("--dry-run")))
    assert.include(message, "2 recipients of Campaign failed (2 × http_403)")
    assert.include(message, "the campaign runs again")
    assert.include(message, "unknown outcome (0) get none")
    const rows = yield* Effect.orDie(
      sql`SELECT FROM campaign_recipients WHERE project_id = ${projectId} AND status = 'failed'`
    )
    assert.lengthOf(rows, 2)
  })
})
