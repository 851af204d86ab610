/**
 * Removes a project with all its records. First the project is marked: its tokens are refused, and its deliveries and campaigns
 * end. Then its rows are deleted in batches, each in its own transaction. The row of the project is deleted last.
 *
 * An interrupted removal continues when it is run again. Concurrent removals share the work.
 */
import { Effect, Option } from "effect"
import { SqlClient, type SqlError, type Statement } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import type { MoveState } from "../platform/MoveState.ts"
import { recordServiceAction } from "../operating/Audit.ts"
import { ProjectUnknown, Refused } from "../operating/Refusals.ts"

const batch = 2_000

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
  function* (projectId: ProjectId, state: MoveState | null, progress: (rows: number) => Effect.Effect<void>) {
    const sql = yield* SqlClient.SqlClient
    yield* Effect.annotateCurrentSpan("project.id", projectId)
    const wasMarked = yield* markDeleted(sql, projectId, state)
    const tables = yield* tablesOf(sql)
    if (wasMarked) yield* Effect.forEach(tables, ({ name }) => vacuum(sql, name), { discard: true })
    /** The number of removed rows by table, without those that earlier, interrupted runs removed. */
    const deleted: Record<string, number> = {}
    let rows = 0

    /** Removes rows of a table until none is left, or until other rows reference the next batch. */
    const empty = Effect.fnUntraced(function* (table: string) {
      while (true) {
        const removed = yield* removeBatch(sql, projectId, table).pipe(
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
      for (const column of selfReferences) yield* unlink(sql, projectId, name, column)
    }
    while (true) {
      const before = rows
      yield* Effect.forEach(tables, ({ name }) => empty(name), { discard: true })
      // A trigger checks that the project is empty.
      const removal = withinTimeouts(sql, sql`DELETE FROM projects WHERE project_id = ${projectId}`)
      const gone = yield* Effect.asSome(removal).pipe(
        // A statement that began before the project was marked may have added a row since. So all tables are emptied again,
        // unless this pass has removed nothing.
        Effect.catchIf(
          (error) => isReferenced(error) && rows > before,
          () => Effect.succeedNone
        )
      )
      if (Option.isSome(gone)) return { projectId, deleted }
    }
  },
  Effect.catchTag("SqlError", Effect.die)
)

type Sql = SqlClient.SqlClient

interface Table {
  readonly name: string
  /** Other tables with foreign keys to this table. */
  readonly children: ReadonlyArray<string>
  /** Columns of foreign keys to the table itself. */
  readonly selfReferences: ReadonlyArray<string>
}

/** Tables with due work, emptied first so that nothing more is sent for the project. */
const first = ["endpoint_health", "campaigns", "messages"]

/** Returns the tables with a column `project_id`, except `projects`. A table comes before the tables that it references. */
export const tablesOf = (sql: Sql) =>
  Effect.map(
    sql<Table>`
      SELECT quote_ident(relname) AS name,
        ARRAY(
          SELECT DISTINCT conrelid::regclass::text FROM pg_constraint
          WHERE contype = 'f' AND confrelid = pg_class.oid AND conrelid <> confrelid
        ) AS children,
        ARRAY(
          SELECT attname::text FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY(conkey)
          WHERE contype = 'f' AND confrelid = pg_class.oid AND conrelid = confrelid AND attname <> 'project_id'
        ) AS "selfReferences"
      FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid
      WHERE attname = 'project_id' AND relkind IN ('r', 'p') AND NOT relispartition AND relname <> 'projects'
        AND relnamespace = current_schema()::regnamespace
      ORDER BY relname = ANY(${first}) DESC, relname`,
    inOrder
  )

const inOrder = (tables: ReadonlyArray<Table>): ReadonlyArray<Table> => {
  const ordered: Array<Table> = []
  let left = tables.filter(({ name }) => name !== "projects")
  while (left.length > 0) {
    const names = new Set(left.map(({ name }) => name))
    const next = left.find(({ children }) => !children.some((child) => names.has(child))) ?? left[0]
    if (next === undefined) break
    ordered.push(next)
    left = left.filter((table) => table !== next)
  }
  return ordered
}

/**
 * Marks a project as deleted, ends its keys, deliveries and campaigns, and records that its deletion begins. First takes the project's
 * advisory lock exclusively, and so waits for mutations in flight. Fails if the state of its move to another cell is not `state`. Returns
 * whether an earlier run has marked the project.
 */
const markDeleted = (sql: Sql, projectId: ProjectId, state: MoveState | null) =>
  Effect.gen(function* () {
    yield* sql`SELECT pg_advisory_xact_lock(hashtextextended(${projectId}, 0))`
    const [project] = yield* sql<{ readonly marked: boolean; readonly state: MoveState | null }>`
      SELECT deleted_at IS NOT NULL AS marked, move_state AS state FROM projects WHERE project_id = ${projectId} FOR UPDATE`
    if (project === undefined) return yield* new ProjectUnknown({ projectId })
    if (project.state !== state)
      return yield* new Refused({
        message: `Project ${projectId} is being moved: end that by \`project move\` at its source`
      })
    // A project that is moved has its entries at the target.
    if (state === null) yield* recordServiceAction({ action: "project.delete.begin", target: projectId })
    yield* sql`
      UPDATE projects SET deleted_at = coalesce(deleted_at, now()), default_pipeline_id = NULL
      WHERE project_id = ${projectId}`
    yield* sql`UPDATE api_keys SET revoked_at = now() WHERE project_id = ${projectId} AND revoked_at IS NULL`
    // Workers find due deliveries through `endpoint_health`, and the due recipients of campaigns through `campaigns`. Without
    // these rows, they find none in the project.
    yield* sql`DELETE FROM endpoint_health WHERE project_id = ${projectId}`
    yield* sql`DELETE FROM campaigns WHERE project_id = ${projectId}`
    return project.marked
  }).pipe(sql.withTransaction)

const withinTimeouts = <A, E, R>(sql: Sql, statement: Effect.Effect<A, E, R>) =>
  sql.withTransaction(
    sql`
      SELECT set_config('lock_timeout', '1s', true), set_config('statement_timeout', '30s', true),
        set_config('enable_seqscan', 'off', true)`.pipe(Effect.andThen(statement))
  )

/** A SQL condition: the row is one of a batch of the rows of a project that satisfy `condition`, which are locked. */
const isInBatch = (sql: Sql, projectId: ProjectId, table: string, condition: Statement.Fragment) => sql`
  ctid = ANY(ARRAY(
    SELECT ctid FROM ${sql.literal(table)} WHERE project_id = ${projectId} AND ${condition} LIMIT ${batch}::int FOR UPDATE
  )) AND project_id = ${projectId}`

const removeBatch = (sql: Sql, projectId: ProjectId, table: string) =>
  withinTimeouts(
    sql,
    sql`DELETE FROM ${sql.literal(table)} WHERE ${isInBatch(sql, projectId, table, sql`true`)} RETURNING 1`
  ).pipe(Effect.map((rows) => rows.length))

/**
 * Removes the dead rows of a table. Otherwise foreign key checks would read these rows when rows of a referenced table are
 * deleted.
 */
const vacuum = (sql: Sql, table: string) => sql`VACUUM (SKIP_LOCKED) ${sql.literal(table)}`

/** Clears a column in which rows reference rows of the same table, so that batches can delete the rows in any order. */
const unlink = (sql: Sql, projectId: ProjectId, table: string, column: string) =>
  withinTimeouts(
    sql,
    sql`
      UPDATE ${sql.literal(table)} SET ${sql(column)} = NULL
      WHERE ${isInBatch(sql, projectId, table, sql`${sql(column)} IS NOT NULL`)}
      RETURNING 1`
  ).pipe(Effect.repeat({ while: (rows) => rows.length > 0 }))
