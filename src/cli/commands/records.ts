/** `audit`, `find` and `task`: what operators did, which record an id names, and the tasks that operators make. */
import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import { SqlClient } from "effect/sql"
import { type Entry, listActions, listServiceActions, recordDone } from "../../operating/Audit.ts"
import { decodeProjectId } from "../../operating/Refusals.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { findRecords, historyOf } from "../../operators/History.ts"
import { answer, answerPage, described, tableOf } from "../Output.ts"
import { deliveryItemOf } from "./deliveries.ts"
import { taskFields } from "../../api/integrations/Events.ts"
import { completeTask, createTask } from "../../crm/Tasks.ts"

const list = Command.make(
  "list",
  {
    json: Flags.json,
    project: Flags.filter(Flags.id("project", "The project's id; if not given, what concerns all projects")),
    ...Flags.rangeByAge
  },
  Effect.fn(function* ({ json, project, ...range }) {
    const found =
      project === null ? yield* listServiceActions(range) : yield* listActions(yield* decodeProjectId(project), range)
    yield* answerPage(json, found, "actions", { itemOf: entryOf })
  }, onMigratedDatabase)
).pipe(
  described("List the actions of operators in a project, or those that concern all projects, the newest first", {
    "--project demo": ""
  })
)

const entryOf = ({ action, actor, at, detail, target }: Entry) => ({ at, actor, action, target, detail })

export const audit = Command.make("audit").pipe(
  Command.withDescription("List the actions of operators, in commands and in the console"),
  Command.withSubcommands([list])
)

export const find = Command.make(
  "find",
  {
    json: Flags.json,
    project: Flags.filter(Flags.id("project", "Search this project alone")),
    id: Argument.String("id").pipe(
      Argument.withMetavar("ID"),
      Argument.withDescription("The id of a record, a request or a trace, or an idempotency key, or its beginning")
    )
  },
  Effect.fn(function* ({ id, json, project }) {
    const items = yield* findRecords(yield* SqlClient.SqlClient, project, id)
    const exact = items.filter((item) => item.id === id)
    const [only, ...others] = exact.length > 0 ? exact : items
    if (only === undefined || others.length > 0) return yield* answerPage(json, { items, next: null }, "records")
    const history = yield* historyOf(yield* decodeProjectId(only.projectId), only)
    const { actions, commands, deliveries, events } = history
    const parts = [
      items,
      commands,
      actions.map(entryOf),
      events.map(({ id, occurredAt, type }) => ({ id, type, occurredAt })),
      deliveries.map(deliveryItemOf)
    ]
    const tables = parts.filter((part) => part.length > 0).map(tableOf)
    yield* answer(json, { items, next: null, ...history }, tables.join("\n\n"))
  }, onMigratedDatabase)
).pipe(
  described(
    "Find records, requests, traces and idempotency keys by an id or its beginning; of a single one, the commands with their API keys, the events and the deliveries",
    { dlv_0193f0cbd4e57f70819203a4b5c6d7e8: "" }
  )
)

const create = Command.make(
  "create",
  {
    ...Flags.ofProject,
    title: Flags.decodedFlag("title", taskFields.title, "TITLE", "The task's title (required)"),
    dealId: Flags.filter(Flags.id("deal", "The id of a deal")),
    clientId: Flags.filter(Flags.id("client", "The id of a client")),
    dueAt: Flags.filter(Flags.time("due", "The due time"))
  },
  Effect.fn(function* ({ json, project, ...task }) {
    const projectId = yield* decodeProjectId(project)
    const taskId = yield* createTask(projectId, task)
    yield* recordDone(projectId, { action: "task.create", target: taskId })
    yield* answer(json, { taskId }, `Task ${taskId} is created`)
  }, onMigratedDatabase)
).pipe(
  described("Create a task and emit crm.task.created.v1", {
    '--project demo --title "Call back" --client cli_mara --due 2026-12-01T09:00:00Z': ""
  })
)

const complete = Command.make(
  "complete",
  { ...Flags.ofProject, taskId: Flags.id("task", "The task's id (required)") },
  Effect.fn(function* ({ json, project, taskId }) {
    const projectId = yield* decodeProjectId(project)
    yield* completeTask(projectId, taskId)
    yield* recordDone(projectId, { action: "task.complete", target: taskId })
    yield* answer(json, { taskId }, `Task ${taskId} is completed`)
  }, onMigratedDatabase)
).pipe(
  described("Complete a task and emit crm.task.completed.v1", {
    "--project demo --task task_0193f0c8a1b27c4d9e5f60718293a4b5": ""
  })
)

export const task = Command.make("task").pipe(
  Command.withDescription("Create and complete the tasks of a project"),
  Command.withSubcommands([create, complete])
)
