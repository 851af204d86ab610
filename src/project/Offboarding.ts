/**
 * Removes a project with all that it has. It is marked first: from then on its tokens are refused, and workers find
 * nothing of it. Then its rows go in batches, each a transaction of its own, and last the project's own row.
 *
 * A removal that ends early goes on when it is run again. Two at once share the work.
 */
import { Context, Effect, Layer, Option } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { ProjectId } from "../api/Ids.ts"
import { ProjectUnknown } from "../platform/ProjectUnknown.ts"
import { markDeleted, removeBatch, removeProject, tablesOf, unlink, vacuum } from "./Offboarding/Statements.ts"

/** Rows of one batch. */
const batch = 2_000

/** How many rows were removed, by table; those of earlier, unfinished runs are not among them. */
interface Removal {
  readonly projectId: ProjectId
  readonly deleted: Readonly<Record<string, number>>
}

/** Something that can't be removed yet as other rows refer to it: its turn comes again. */
const isReferred = ({ reason }: SqlError.SqlError) => reason._tag === "ConstraintError"

/** Given up when another process holds on to rows: the batch is tried again. */
const isContended = ({ reason }: SqlError.SqlError) =>
  reason._tag === "LockTimeoutError" || reason._tag === "DeadlockError"

export class Offboarding extends Context.Service<
  Offboarding,
  {
    /** Tells `progress` the number of rows that are removed so far, after each batch. */
    readonly remove: (
      projectId: ProjectId,
      progress: (rows: number) => Effect.Effect<void>
    ) => Effect.Effect<Removal, ProjectUnknown>
  }
>()("developer-api/project/Offboarding") {
  static readonly layer = Layer.effect(
    Offboarding,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient

      return {
        remove: Effect.fn("Offboarding.remove")(
          function* (projectId, progress) {
            yield* Effect.annotateCurrentSpan("project.id", projectId)
            const marked = yield* markDeleted(sql, projectId)
            if (marked === "unknown") return yield* new ProjectUnknown({ projectId })
            const tables = yield* tablesOf(sql)
            if (marked === "before") yield* Effect.forEach(tables, ({ name }) => vacuum(sql, name), { discard: true })
            const deleted: Record<string, number> = {}
            let rows = 0

            /** Removes rows of a table until it has none, or until others refer to what is left. */
            const empty = Effect.fnUntraced(function* (table: string) {
              while (true) {
                const removed = yield* removeBatch(sql, projectId, table, batch).pipe(
                  Effect.retry({ while: isContended }),
                  Effect.catchIf(isReferred, () => Effect.succeed(0))
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
              const gone = yield* Effect.asSome(removeProject(sql, projectId)).pipe(
                // Something was added by what had begun before the mark: another round finds it.
                Effect.catchIf(
                  (error) => isReferred(error) && rows > before,
                  () => Effect.succeedNone
                )
              )
              if (Option.isSome(gone)) return { projectId, deleted }
            }
          },
          Effect.catchTag("SqlError", Effect.die)
        )
      }
    })
  )
}
