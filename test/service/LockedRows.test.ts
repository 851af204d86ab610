/**
 * Rows that somebody else has locked: the background work of other projects goes on, and that of the project waits. Each table
 * in turn has its rows of some projects locked, while these projects have work at every stage.
 */
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "../support/Vitest.ts"
import { Context, Effect, Fiber, Layer, Redacted } from "effect"
import { documentOf, run } from "../cli/Cli.support.ts"
import { campaignOf, clientId, provider } from "../campaigns/Runner.support.ts"
import { held, open as openMessages, placesIn, script, taken } from "../contract/Messages.support.ts"
import { openShop, settings, status } from "../webhooks/delivery/Deliveries.support.ts"
import { messageReceiptOf } from "../support/MessagingAnswers.ts"
import { copyEvent } from "../support/Events.ts"
import { holding, workedOn } from "../support/Locks.ts"
import { secretKey, startServer, type TestServer } from "../support/TestServer.ts"
import { until, untilRows } from "../support/Waiting.ts"

type Server = TestServer["Service"]

/** Starts a replay of all deliveries to the webhook `shop`; returns its id. */
const replay = ({ databaseUrl }: Server, projectId: string) => {
  const range = ["--since", "2026-01-01T00:00:00Z", "--until", "2099-01-01T00:00:00Z", "--status", "all"]
  const args = ["deliveries", "replay", "--project", projectId, "--installation", "shop", ...range, "--json"]
  return Effect.map(run(args, { env: { DATABASE_URL: databaseUrl, SECRET_KEY: secretKey } }), documentOf)
}

/** Starts a replay of more deliveries than may be open, to an endpoint that rests. */
const waitingReplay = Effect.fnUntraced(function* (server: Server) {
  const shop = yield* openShop(server)
  yield* shop.created()
  yield* shop.finished
  yield* copyEvent(server.sql, shop.projectId, 30)
  yield* shop.setHealth("resting_until = now() + interval '1 hour'")
  yield* replay(server, shop.projectId)
  return {
    projectId: shop.projectId,
    completed: Effect.gen(function* () {
      yield* shop.setHealth("resting_until = NULL")
      yield* untilRows(
        Effect.orDie(server.sql`
          SELECT FROM replays WHERE project_id = ${shop.projectId} AND state = 'completed' AND made = 31`),
        (rows) => rows.length === 1
      )
    })
  }
})

/** Opens projects whose work is in the middle of each of its stages. `letGo` lets their providers and endpoints answer. */
const busyProjects = Effect.fnUntraced(function* (server: Server) {
  // The answers come one after the other, so that each outcome is recorded by itself.
  const { answering, letGo } = held((hit, n) => void setTimeout(() => taken(hit, n), 30 * n))
  const gone = held(status(410))
  const replayed = yield* waitingReplay(server)
  const shop = yield* openShop(server, gone.answering)
  yield* shop.created()
  const messages = yield* openMessages(server, answering)
  const [waiting, lost] = [yield* messages.sent("first"), yield* messages.sent("second")]
  const asked = yield* Effect.forEach(Array.from({ length: 6 }), () => Effect.forkChild(messages.send("http")))
  const campaign = yield* campaignOf(server, { recipients: 4, primary: (yield* provider(answering)).url })
  const again = yield* campaignOf(server, {
    recipients: 1,
    primary: (yield* provider(script(status(503), taken))).url
  })
  // Its recipients are skipped.
  const later = yield* campaignOf(server, {
    recipients: 2,
    primary: (yield* provider()).url,
    status: "scheduled",
    scheduledIn: 700
  })
  yield* Effect.orDie(server.sql`UPDATE clients SET suppressed = true WHERE project_id = ${later.projectId}`)
  yield* until(() => shop.to.hits.length === 1 && messages.provider.hits.length === asked.length)
  yield* untilRows(campaign.recipients, (rows) => rows.every(({ status }) => status === "sending"))
  yield* untilRows(again.recipients, (rows) =>
    rows.every(({ attempts, status }) => attempts === 1 && status === "pending")
  )
  yield* messages.leave(waiting.messageId, placesIn(300)["retrying, waiting"])
  yield* messages.leave(lost.messageId, placesIn(300).pending)
  return {
    ids: [replayed, shop, messages, campaign, again, later].map(({ projectId }) => projectId),
    letGo: () => {
      letGo()
      gone.letGo()
    },
    /** Waits until all of the work is done, and asserts that each outcome was recorded. */
    finished: Effect.gen(function* () {
      yield* Fiber.joinAll(asked)
      yield* untilRows(
        messages.rows,
        (rows) => rows.length === 2 + asked.length && rows.every(({ status }) => status === "sent")
      )
      for (const one of [campaign, again, later]) yield* one.settled("completed")
      assert.isTrue((yield* campaign.recipients).every(({ status }) => status === "sent"))
      yield* untilRows(shop.webhook(), ({ enabled }) => !enabled)
      yield* replayed.completed
    })
  }
})

/** Does a piece of every kind of work for new projects. */
const doWork = Effect.fnUntraced(function* (server: Server) {
  const shop = yield* openShop(server)
  const messages = yield* openMessages(server, script(status(503), taken))
  const campaign = yield* campaignOf(server, { recipients: 3, primary: (yield* provider()).url })
  yield* Effect.orDie(server.sql`
    UPDATE clients SET suppressed = true WHERE project_id = ${campaign.projectId} AND id = ${clientId(0)}`)
  yield* shop.created()
  const { messageId } = messageReceiptOf(yield* messages.send("http"))
  yield* until(() => shop.to.hits.length === 1)
  yield* shop.finished
  yield* replay(server, shop.projectId)
  yield* until(() => shop.to.hits.length === 2)
  yield* shop.finished
  yield* untilRows(messages.row(messageId), ({ status }) => status === "sent")
  yield* campaign.settled("completed")
})

describe("the work of other projects", () => {
  it.live(
    "goes on while rows of a project are locked, whatever their table, and the work of the project follows",
    function* () {
      const server = yield* startServer(settings)
      const other = Context.get(
        yield* Layer.build(PgClient.layer({ url: Redacted.make(server.databaseUrl) })),
        PgClient.PgClient
      )
      const isolated = Effect.fnUntraced(function* (table: string) {
        const busy = yield* busyProjects(server)
        const lock = yield* holding(
          other,
          // Rows of no project count the attempts of all.
          other`SELECT FROM ${other(table)} WHERE project_id = ANY(${[...busy.ids, ""]}) FOR UPDATE`
        )
        busy.letGo()
        yield* doWork(server).pipe(
          Effect.timeoutOrElse({
            duration: "20 seconds",
            orElse: () =>
              Effect.die(
                new Error(`It waits for rows that are locked in ${table}, or in a table beside it in the list`)
              )
          }),
          Effect.ensuring(Effect.orDie(lock.release))
        )
        yield* busy.finished
      })
      yield* Effect.forEach(workedOn, isolated, { concurrency: 5, discard: true })
    }
  )
})
