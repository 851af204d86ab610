/** Notices of new deliveries to the worker of the same process, and to other processes. */
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "../support/Vitest.ts"
import { Context, Effect, Layer, Option, Queue } from "effect"
import { InstallationId, ProjectId } from "../../src/api/schema/Ids.ts"
import { Supervisor } from "../../src/work/Supervisor.ts"
import { channel, type Notice, noticeOf, Notifier } from "../../src/outbox/Outbox.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

const projectId = ProjectId.make("acme")
const installationId = InstallationId.make("shop")

const client = Layer.unwrap(Effect.map(TestDatabase, ({ url }) => PgClient.layer({ url })))

const notifier = Layer.fresh(Notifier.layer.pipe(Layer.provide(Supervisor.layer)))

layer(Layer.provideMerge(client, TestDatabase.layer), { excludeTestServices: true })("a notifier", (it) => {
  it.effect("passes a notice on to its own process at once, and to others by NOTIFY", function* () {
    const [own, other] = [yield* Layer.build(notifier), yield* Layer.build(notifier)].map((context) =>
      Context.get(context, Notifier)
    )
    if (own === undefined || other === undefined) return assert.fail("no notifiers")
    const received: Array<Notice> = []
    let isOnly = false
    yield* own.subscribe((notice) => {
      received.push(notice)
      return isOnly
    })
    const notifications = yield* (yield* PgClient.PgClient).listen(channel)
    const appended = { on: "appended", projectId, installationIds: [installationId] } as const
    yield* own.appended(projectId, [installationId])
    assert.deepStrictEqual(received, [appended])

    const { payload } = yield* Queue.take(notifications)
    const notice = Option.getOrThrow(noticeOf(payload))
    assert.deepInclude(notice, appended)
    assert.deepStrictEqual([own.isOwn(notice), other.isOwn(notice)], [true, false])
    assert.lengthOf(received, 1)

    // The only worker sends no NOTIFY of new deliveries, but others may start that still have to know of a changed webhook.
    isOnly = true
    yield* own.appended(projectId, [installationId])
    yield* own.changed(projectId, installationId)
    const next = Option.getOrThrow(noticeOf((yield* Queue.take(notifications)).payload))
    assert.deepStrictEqual([next.on, received.length], ["changed", 3])
  })

  it.effect("splits a notice whose ids are too long for one NOTIFY", function* () {
    const { appended } = Context.get(yield* Layer.build(notifier), Notifier)
    const notifications = yield* (yield* PgClient.PgClient).listen(channel)
    const ids = Array.from({ length: 40 }, (_, n) => InstallationId.make("店".repeat(157) + String(n).padStart(3, "0")))
    yield* appended(ProjectId.make("店".repeat(160)), ids)
    const received: Array<string> = []
    while (received.length < ids.length) {
      const { payload } = yield* Queue.take(notifications)
      received.push(...Option.getOrThrow(noticeOf(payload)).installationIds)
    }
    assert.deepStrictEqual(received, ids)
  })
})
