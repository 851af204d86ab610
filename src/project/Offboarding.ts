/**
 * Removes a project with all its records. First the project is marked: its tokens are refused, and its deliveries and campaigns
 * end. Then its rows are deleted in batches, each in its own transaction. The row of the project is deleted last.
 *
 * An interrupted removal continues when it is run again. Concurrent removals share the work.
 */
import { Data, Effect, Option } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import type { State } from "../platform/Moves.ts"
import { ProjectUnknown } from "../operators/Refusals.ts"
import { markDeleted, removeBatch, removeRow, tablesOf, unlink, vacuum } from "./Offboarding/Statements.ts"

export { tablesOf }

const batch = 2_000

/** The project is being moved, or another database serves it. Nothing of it was removed. */
class ProjectMoves extends Data.TaggedError("ProjectMoves")<{ readonly projectId: ProjectId }> {
  override get message() {
    return `Project ${this.projectId} is being moved: end that by \`project move\` at its source`
  }
}

/** The number of removed rows by table. It does not include rows that earlier, interrupted runs removed. */
interface Removal {
  readonly projectId: ProjectId
  readonly deleted: Readonly<Record<string, number>>
}

/** Whether rows can't be removed yet because other rows reference them. The next pass over all tables tries them again. */
const isReferenced = ({ reason }: SqlError.SqlError) => reason._tag === "ConstraintError"

/** Whether another process holds locks on the rows. The batch is then retried. */
const isContended = ({ reason }: SqlError.SqlError) =>
  reason._tag === "LockTimeoutError" || reason._tag === "DeadlockError"

/**
 * Removes a project. `state` is the expected state of its move, or null if it is not being moved. After each batch, calls
 * `progress` with the number of rows removed so far.
 */
export const removeProject = Effect.fn("removeProject")(
  function* (projectId: ProjectId, state: State | null, progress: (rows: number) => Effect.Effect<void>) {
    const sql = yield* SqlClient.SqlClient
    yield* Effect.annotateCurrentSpan("project.id", projectId)
    const marked = yield* markDeleted(sql, projectId, state)
    if (marked === "unknown") return yield* new ProjectUnknown({ projectId })
    if (marked === "moved") return yield* new ProjectMoves({ projectId })
    const tables = yield* tablesOf(sql)
    if (marked === "before") yield* Effect.forEach(tables, ({ name }) => vacuum(sql, name), { discard: true })
    const deleted: Record<string, number> = {}
    let rows = 0

    /** Removes rows of a table until none is left, or until other rows reference the next batch. */
    const empty = Effect.fnUntraced(function* (table: string) {
      while (true) {
        const removed = yield* removeBatch(sql, projectId, table, batch).pipe(
          Effect.retry({ while: isContended }),
          Effect.catchIf(isReferenced, () => Effect.succeed(0))
        )
        if (removed === 0) break
        deleted[table] = (deleted[table] ?? 0) + removed
        rows += removed
        yield* progress(rows)
      }
      if ((deleted[table] ?? 0) > batch) yield* vacuum(sql, table)
    })

    for (const { name, selfReferences } of tables) {
      for (const column of selfReferences) yield* unlink(sql, projectId, name, column, batch)
    }
    while (true) {
      const before = rows
      yield* Effect.forEach(tables, ({ name }) => empty(name), { discard: true })
      const gone = yield* Effect.asSome(removeRow(sql, projectId)).pipe(
        // A statement that began before the project was marked may have added a row since. So all tables are emptied again,
        // unless this pass has removed nothing.
        Effect.catchIf(
          (error) => isReferenced(error) && rows > before,
          () => Effect.succeedNone
        )
      )
      if (Option.isSome(gone)) return { projectId, deleted } satisfies Removal
    }
  },
  Effect.catchTag("SqlError", Effect.die)
)
