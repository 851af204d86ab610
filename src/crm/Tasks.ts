/** Tasks. Operators create and complete them with commands, which emit events (contract §7, §13). */
import { Context, Data, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { type ClientId, type DealId, type ProjectId, TaskId } from "../api/Ids.ts"
import { newId } from "../platform/NewId.ts"
import { eventContext } from "../platform/outbox/Outbox.ts"
import { Notifier } from "../platform/outbox/Notifier.ts"
import { ProjectUnknown } from "../platform/ProjectUnknown.ts"
import { complete, create } from "./Tasks/Repo.ts"

/** The fields of a new task. */
export interface NewTask {
  readonly title: string
  readonly dealId: DealId | null
  readonly clientId: ClientId | null
  /** RFC 3339. */
  readonly dueAt: string | null
}

/** The command names a task, deal or client that the project does not have. */
export class TaskReferenceUnknown extends Data.TaggedError("TaskReferenceUnknown")<{
  readonly projectId: ProjectId
  readonly unknown: ReadonlyArray<{ readonly kind: "task" | "deal" | "client"; readonly id: string }>
}> {
  override get message() {
    return `Project "${this.projectId}" has no ${this.unknown.map(({ id, kind }) => `${kind} "${id}"`).join(" and no ")}`
  }
}

export class Tasks extends Context.Service<
  Tasks,
  {
    /** Creates an open task and emits `crm.task.created.v1`. */
    readonly create: (
      projectId: ProjectId,
      task: NewTask
    ) => Effect.Effect<TaskId, ProjectUnknown | TaskReferenceUnknown>

    /** Completes a task and emits `crm.task.completed.v1`. A completed task stays as it is. */
    readonly complete: (projectId: ProjectId, id: TaskId) => Effect.Effect<void, ProjectUnknown | TaskReferenceUnknown>
  }
>()("developer-api/crm/Tasks") {
  static readonly layer = Layer.effect(
    Tasks,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const notifier = yield* Notifier

      return {
        create: Effect.fn("Tasks.create")(function* (projectId, task) {
          const id = TaskId.make(yield* newId("task"))
          const [verdict] = yield* create(sql, yield* eventContext(projectId), id, task).pipe(Effect.orDie)
          if (verdict === undefined) return yield* new ProjectUnknown({ projectId })
          const unknown = [
            ...(verdict.members.includes("dealId") ? [{ kind: "deal", id: String(task.dealId) } as const] : []),
            ...(verdict.members.includes("clientId") ? [{ kind: "client", id: String(task.clientId) } as const] : [])
          ]
          if (unknown.length > 0) return yield* new TaskReferenceUnknown({ projectId, unknown })
          yield* notifier.appended(projectId, verdict.appended)
          return id
        }),
        complete: Effect.fn("Tasks.complete")(function* (projectId, id) {
          const [verdict] = yield* complete(sql, yield* eventContext(projectId), id).pipe(Effect.orDie)
          if (verdict === undefined) return yield* new ProjectUnknown({ projectId })
          if (!verdict.known) return yield* new TaskReferenceUnknown({ projectId, unknown: [{ kind: "task", id }] })
          yield* notifier.appended(projectId, verdict.appended)
        })
      }
    })
  )
}
