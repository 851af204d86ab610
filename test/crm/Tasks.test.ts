/** Tasks and their events, at times that the test sets (contract §7, §10). */
import { PgClient } from "@effect/sql-pg"
import { assert, layer } from "../support/Vitest.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { ClientId, DealId, ProjectId, TaskId } from "../../src/api/schema/Ids.ts"
import { type NewTask, Tasks } from "../../src/crm/Tasks.ts"
import { Notifier } from "../../src/platform/outbox/Notifier.ts"
import { withDeals } from "../support/Deals.ts"
import { slowDown } from "../support/SlowRows.ts"
import { apply, rowsOf, services } from "../project/Projects.support.ts"
import { eventsOf, subscribe } from "../support/Events.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

// The test clock starts at 0 and runs a check of the connection pool for every minute: times close to 0 need few.
const morning = Date.UTC(1970, 0, 1, 9)
const evening = Date.UTC(1970, 0, 1, 18, 30, 0, 7)
const bare: NewTask = { title: "Call back", dealId: null, clientId: null, dueAt: null }

/** Creates a project with a webhook `shop` that is subscribed to all events. */
const open = Effect.fnUntraced(function* (id: string, file?: Parameters<typeof apply>[1]) {
  yield* apply(id, file)
  yield* subscribe(yield* SqlClient.SqlClient, id, "shop")
  yield* TestClock.setTime(morning)
  return ProjectId.make(id)
})

const records = {
  members: [{ id: "anna", name: "Anna" }],
  clients: [{ id: "mara", displayName: "Mara" }],
  ...withDeals("deal")
}

const tasks = Tasks.layer.pipe(Layer.provide(Notifier.layerInline))

/** The service on a separate connection, as in another operator's process. */
const another = Effect.gen(function* () {
  const { url } = yield* TestDatabase
  const own = tasks.pipe(Layer.provide(PgClient.layer({ url, maxConnections: 1 })))
  return Context.get(yield* Layer.build(Layer.fresh(own)), Tasks)
})

/** Reads the events for the webhooks of a project: time, data and installations. */
const eventsFor = Effect.fnUntraced(function* (projectId: ProjectId) {
  const events = yield* eventsOf(yield* SqlClient.SqlClient, projectId)
  return events.map(({ data, installations, occurredAt, type }) => ({
    at: occurredAt.getTime(),
    type,
    data,
    installations
  }))
})

layer(tasks.pipe(Layer.provideMerge(services)))("the service Tasks", (it) => {
  it.effect("appends events with the task as created and as completed", function* () {
    const tasks = yield* Tasks
    const projectId = yield* open("both", records)
    const dueAt = "2026-12-01T09:00:00.000Z"
    const id = yield* tasks.create(projectId, {
      title: "Call back",
      dealId: DealId.make("deal"),
      clientId: ClientId.make("mara"),
      dueAt
    })
    const task = {
      id,
      title: "Call back",
      dealId: "deal",
      clientId: "mara",
      assigneeId: null,
      dueAt,
      completedAt: null,
      createdAt: "1970-01-01T09:00:00.000Z"
    }
    const installations = ["shop"]
    const created = { at: morning, type: "crm.task.created.v1" as const, data: { task }, installations }
    assert.deepStrictEqual(yield* eventsFor(projectId), [created])

    yield* TestClock.setTime(evening)
    yield* tasks.complete(projectId, id)
    const data = { task: { ...task, completedAt: "1970-01-01T18:30:00.007Z" } }
    const completed = { at: evening, type: "crm.task.completed.v1" as const, data, installations }
    assert.deepStrictEqual(yield* eventsFor(projectId), [created, completed])
    assert.deepInclude((yield* rowsOf("tasks", projectId))[0], { completed_at: new Date(evening), version: 2 })
  })

  it.effect("appends events with the assignee from a project file", function* () {
    const tasks = yield* Tasks
    const projectId = yield* open("assigned", {
      ...records,
      tasks: [{ id: "task", title: "Call back", assigneeId: "anna" }]
    })
    yield* tasks.complete(projectId, TaskId.make("task"))
    const [event, ...more] = yield* eventsFor(projectId)
    assert.deepStrictEqual(more, [])
    assert.strictEqual(event?.type, "crm.task.completed.v1")
    assert.deepNestedInclude(event?.data, { "task.assigneeId": "anna", "task.dueAt": null, "task.dealId": null })
  })

  it.effect("completes a task once under repetition and concurrency", function* () {
    const tasks = yield* Tasks
    const projectId = yield* open("once")
    yield* slowDown(yield* SqlClient.SqlClient, "tasks")
    const id = yield* tasks.create(projectId, bare)
    const operators = yield* Effect.all([another, another, another, another])
    const many = Effect.forEach(operators, (tasks) => tasks.complete(projectId, id), { concurrency: "unbounded" })
    yield* many
    const completed = yield* rowsOf("tasks", projectId)
    assert.deepInclude(completed[0], { completed_at: new Date(morning), version: 2 })

    yield* TestClock.setTime(evening)
    yield* tasks.complete(projectId, id)
    yield* many
    assert.deepStrictEqual(yield* rowsOf("tasks", projectId), completed)
    assert.deepStrictEqual(
      (yield* eventsFor(projectId)).map(({ at, type }) => [type, at]),
      [
        ["crm.task.created.v1", morning],
        ["crm.task.completed.v1", morning]
      ]
    )
  })

  it.effect("refuses deals and clients of another project without effect", function* () {
    const tasks = yield* Tasks
    yield* open("foreign", records)
    const projectId = yield* open("refused", { clients: [{ id: "own", displayName: "Own" }] })
    const [dealId, mara, own] = [DealId.make("deal"), ClientId.make("mara"), ClientId.make("own")]
    const deal = { kind: "deal", id: "deal" } as const
    const client = { kind: "client", id: "mara" } as const
    for (const [task, unknown] of [
      [{ dealId }, [deal]],
      [{ clientId: mara }, [client]],
      [{ dealId, clientId: own }, [deal]],
      [{ dealId, clientId: mara }, [deal, client]]
    ] as const) {
      const refused = yield* Effect.flip(tasks.create(projectId, { ...bare, ...task }))
      assert.deepInclude(refused, { _tag: "TaskReferenceUnknown", projectId, unknown })
    }
    assert.deepStrictEqual(yield* rowsOf("tasks", projectId), [])
    assert.deepStrictEqual(yield* eventsFor(projectId), [])
    assert.deepStrictEqual(yield* eventsFor(ProjectId.make("foreign")), [])
  })

  it.effect("refuses tasks of another project and unknown projects", function* () {
    const tasks = yield* Tasks
    const owner = yield* open("owner")
    const other = yield* open("other")
    const nowhere = ProjectId.make("nowhere")
    const id = yield* tasks.create(owner, bare)
    const unknown = yield* Effect.flip(tasks.complete(other, id))
    assert.deepInclude(unknown, { _tag: "TaskReferenceUnknown", unknown: [{ kind: "task", id }] })
    for (const command of [tasks.create(nowhere, bare), tasks.complete(nowhere, id)]) {
      assert.deepInclude(yield* Effect.flip(command), { _tag: "ProjectUnknown", projectId: "nowhere" })
    }
    assert.deepInclude((yield* rowsOf("tasks", owner))[0], { completed_at: null, version: 1 })
    assert.deepStrictEqual(yield* eventsFor(other), [])
    assert.strictEqual((yield* eventsFor(owner)).length, 1)
  })

  it.effect("completes tasks of equal ids in two projects independently", function* () {
    const tasks = yield* Tasks
    const file = { tasks: [{ id: "task", title: "Call back" }] }
    const [one, two] = [yield* open("one", file), yield* open("two", file)]
    yield* tasks.complete(one, TaskId.make("task"))
    assert.strictEqual((yield* eventsFor(one)).length, 1)
    assert.deepStrictEqual(yield* eventsFor(two), [])
    assert.isNull((yield* rowsOf("tasks", two))[0]?.["completed_at"])
  })
})
