import { Effect, Option, Schema } from "effect"
import { Command, Flag } from "effect/cli"
import { taskFields } from "../../api/integrations/Events.ts"
import { ClientId, DealId, type ProjectId, TaskId } from "../../api/schema/Ids.ts"
import { Instant } from "../../api/schema/Fields.ts"
import { completeTask, createTask, TaskReferenceUnknown } from "../../crm/Tasks.ts"
import { recordDone } from "../../operators/Audit.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answer, cli } from "../Output.ts"

const create = Command.make(
  "create",
  {
    json: Flags.json,
    project: Flags.project,
    title: Flags.decodedFlag("title", taskFields.title).pipe(
      Flag.withMetavar("TITLE"),
      Flag.withDescription("The task's title (required)")
    ),
    deal: Flags.id("deal", "The id of a deal").pipe(Flag.optional),
    client: Flags.id("client", "The id of a client").pipe(Flag.optional),
    due: Flags.decodedFlag("due", Instant).pipe(
      Flag.withMetavar("TIME"),
      Flag.withDescription("The due time in RFC 3339, such as 2026-12-01T09:00:00Z"),
      Flag.optional
    )
  },
  Effect.fn(function* ({ client, deal, due, json, project, title }) {
    const projectId = yield* Flags.projectId(project)
    const named = namedIn(projectId)
    const taskId = yield* createTask(projectId, {
      title,
      dealId: Option.isSome(deal) ? yield* named("deal", DealId, deal.value) : null,
      clientId: Option.isSome(client) ? yield* named("client", ClientId, client.value) : null,
      dueAt: Option.getOrNull(due)
    })
    yield* recordDone(projectId, { action: "task.create", target: taskId })
    yield* answer(json, { taskId }, `Task ${taskId} is created`)
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("Create a task and emit crm.task.created.v1"),
  Command.withExamples([
    { command: `${cli} task create --project demo --title "Call back" --client cli_mara --due 2026-12-01T09:00:00Z` }
  ])
)

const complete = Command.make(
  "complete",
  {
    json: Flags.json,
    project: Flags.project,
    task: Flags.id("task", "The task's id (required)")
  },
  Effect.fn(function* ({ json, project, task }) {
    const projectId = yield* Flags.projectId(project)
    const taskId = yield* namedIn(projectId)("task", TaskId, task)
    yield* completeTask(projectId, taskId)
    yield* recordDone(projectId, { action: "task.complete", target: taskId })
    yield* answer(json, { taskId }, `Task ${taskId} is completed`)
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("Complete a task and emit crm.task.completed.v1"),
  Command.withExamples([
    { command: `${cli} task complete --project demo --task task_0193f0c8a1b27c4d9e5f60718293a4b5` }
  ])
)

export const task = Command.make("task").pipe(
  Command.withDescription("Create and complete the tasks of a project"),
  Command.withSubcommands([create, complete])
)

/** Decodes the id of a record. If the id is malformed, fails as if the record did not exist. */
const namedIn =
  (projectId: ProjectId) =>
  <Id>(kind: "task" | "deal" | "client", schema: Schema.Codec<Id, string>, id: string) =>
    Schema.decodeEffect(schema)(id).pipe(
      Effect.mapError(() => new TaskReferenceUnknown({ projectId, unknown: [{ kind, id }] }))
    )
