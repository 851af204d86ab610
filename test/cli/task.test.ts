/** The command `task`: its input, its output, and the events for webhooks. */
import { assert, layer } from "../support/Vitest.ts"
import { Effect, Fiber, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { put, withDeals } from "../support/Rows.ts"
import { apply, rowsOf, services } from "../project/Projects.support.ts"
import { eventsOf, subscribe } from "../support/Events.ts"
import { slowDown, untilBlocking } from "../support/Locks.ts"
import { cli, documentOf, failure } from "./Cli.support.ts"

const decodeTaskId = Schema.decodeUnknownSync(Schema.Struct({ taskId: Schema.String }), { onExcessProperty: "error" })
const taskIdOf = (...[ended]: Parameters<typeof documentOf>) => decodeTaskId(documentOf(ended)).taskId

const create = (project: string, ...flags: ReadonlyArray<string>) =>
  cli(["task", "create", "--project", project, "--title", "Call back", ...flags])
const complete = (project: string, task: string, ...flags: ReadonlyArray<string>) =>
  cli(["task", "complete", "--project", project, "--task", task, ...flags])

/** Creates a project with a client, a deal and a task, and webhooks with different subscriptions. */
const open = Effect.fnUntraced(function* (id: string) {
  yield* apply(id, {
    members: [{ id: "anna", name: "Anna" }],
    clients: [{ id: "mara", displayName: "Mara" }],
    ...withDeals("deal"),
    tasks: [
      {
        id: "task",
        title: "From a file",
        dealId: "deal",
        clientId: "mara",
        assigneeId: "anna",
        dueAt: "2026-12-01T09:00:00Z"
      }
    ]
  })
  const sql = yield* SqlClient.SqlClient
  yield* subscribe(sql, id, "all")
  yield* subscribe(sql, id, "created", ["crm.task.created.v1", "crm.deal.created.v1"])
  yield* subscribe(sql, id, "completed", ["crm.task.completed.v1"])
  yield* subscribe(sql, id, "deals", ["crm.deal.created.v1", "crm.deal.updated.v1", "crm.deal.stage_changed.v1"])
  yield* subscribe(sql, id, "disabled", undefined, false)
})

const eventsIn = (project: string) => Effect.flatMap(SqlClient.SqlClient, (sql) => eventsOf(sql, project))

layer(services, { excludeTestServices: true })("the command `task`", (it) => {
  it.effect("creates a task with every option, and appends its event for subscribed webhooks", function* () {
    yield* open("full")
    yield* open("neighbour")
    const title = " Ring “Mara” \\ 😀"
    const about = ["--deal", "deal", "--client", "mara", "--due", "2026-12-01T09:00:00.5+01:30"]
    const before = Date.now()
    const id = taskIdOf(yield* cli(["task", "create", "--json", "--project", "full", "--title", title, ...about]))
    assert.match(id, /^task_/)
    const [event, ...more] = yield* eventsIn("full")
    assert.deepStrictEqual(more, [])
    const { data, installations, occurredAt = new Date(0), traceparent = "", type } = event ?? {}
    assert.strictEqual(type, "crm.task.created.v1")
    assert.isTrue(occurredAt.getTime() >= before && occurredAt.getTime() <= Date.now())
    assert.deepStrictEqual(data, {
      task: {
        id,
        title,
        dealId: "deal",
        clientId: "mara",
        assigneeId: null,
        dueAt: "2026-12-01T07:30:00.500Z",
        completedAt: null,
        createdAt: occurredAt.toISOString()
      }
    })
    assert.deepStrictEqual(installations, ["all", "created"])
    assert.match(traceparent, /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-0[01]$/)
    assert.deepStrictEqual(yield* eventsIn("neighbour"), [])
  })

  it.effect("is refused if the client of the task is erased meanwhile", function* () {
    yield* open("erased")
    const sql = yield* SqlClient.SqlClient
    yield* put(sql, "clients", { project_id: "erased", id: "leo" })
    const creating = yield* sql.withTransaction(
      Effect.gen(function* () {
        yield* sql`DELETE FROM clients WHERE project_id = 'erased' AND id = 'leo'`
        const creating = yield* Effect.forkChild(create("erased", "--client", "leo"))
        yield* untilBlocking(sql)
        return creating
      })
    )
    assert.deepStrictEqual(yield* Fiber.join(creating), failure(1, 'Project "erased" has no client "leo"'))
    assert.deepStrictEqual(yield* eventsIn("erased"), [])
  })

  it.effect("completes a task, and appends its event for subscribed webhooks", function* () {
    yield* open("complete")
    yield* open("elsewhere")
    assert.deepStrictEqual(documentOf(yield* complete("complete", "task", "--json")), { taskId: "task" })
    const [event, ...more] = yield* eventsIn("complete")
    const [task] = yield* rowsOf("tasks", "complete")
    assert.deepStrictEqual(more, [])
    assert.strictEqual(event?.type, "crm.task.completed.v1")
    assert.deepNestedInclude(event?.data, {
      "task.id": "task",
      "task.title": "From a file",
      "task.dealId": "deal",
      "task.clientId": "mara",
      "task.assigneeId": "anna",
      "task.dueAt": "2026-12-01T09:00:00.000Z",
      "task.completedAt": event?.occurredAt.toISOString()
    })
    assert.deepStrictEqual(task?.["completed_at"], event?.occurredAt)
    assert.deepStrictEqual(event?.installations, ["all", "completed"])
    // The task with the same id in another project is unchanged.
    assert.isNull((yield* rowsOf("tasks", "elsewhere"))[0]?.["completed_at"])
    assert.deepStrictEqual(yield* eventsIn("elsewhere"), [])
  })

  it.effect("changes nothing and appends no event for a completed task", function* () {
    yield* open("again")
    const first = yield* complete("again", "task")
    assert.deepStrictEqual(first, { status: 0, stdout: "Task task is completed\n", stderr: "" })
    const [before, events] = [yield* rowsOf("tasks", "again"), yield* eventsIn("again")]
    assert.deepStrictEqual(yield* complete("again", "task"), first)
    assert.deepStrictEqual(documentOf(yield* complete("again", "task", "--json")), { taskId: "task" })
    assert.deepStrictEqual(yield* rowsOf("tasks", "again"), before)
    assert.deepStrictEqual(yield* eventsIn("again"), events)
    assert.lengthOf(events, 1)
  })

  it.effect("completes a task once for several operators at the same time", function* () {
    yield* open("once")
    yield* slowDown(yield* SqlClient.SqlClient, "tasks")
    const commands = Array.from({ length: 4 }, () => complete("once", "task"))
    for (const { status, stderr } of yield* Effect.all(commands, { concurrency: "unbounded" })) {
      assert.deepStrictEqual([status, stderr], [0, ""])
    }
    assert.deepInclude((yield* rowsOf("tasks", "once"))[0], { version: 2 })
    assert.lengthOf(yield* eventsIn("once"), 1)
  })

  it.effect("fails with one line and without effect when a record is missing", function* () {
    yield* open("failures")
    yield* apply("stranger", {
      clients: [{ id: "foreign", displayName: "Foreign" }],
      tasks: [{ id: "foreign", title: "A" }]
    })
    const before = yield* rowsOf("tasks", "failures")
    const long = "x".repeat(161)
    for (const [command, line] of [
      [create("failures", "--deal", "foreign", "--json"), 'Project "failures" has no deal "foreign"'],
      [create("failures", "--client", "foreign", "--deal", "deal"), 'Project "failures" has no client "foreign"'],
      [
        create("failures", "--client", "deal", "--deal", "mara"),
        'Project "failures" has no deal "mara" and no client "deal"'
      ],
      [create("failures", "--deal", ""), 'Project "failures" has no deal ""'],
      [create("failures", "--client", long), `Project "failures" has no client "${long}"`],
      [create("failures", "--client", "a\nb"), 'Project "failures" has no client "a b"'],
      [complete("failures", "foreign"), 'Project "failures" has no task "foreign"']
    ] as const) {
      assert.deepStrictEqual(yield* command, failure(1, line))
    }
    assert.deepStrictEqual(yield* rowsOf("tasks", "failures"), before)
    assert.deepStrictEqual(yield* eventsIn("failures"), [])
  })
})
