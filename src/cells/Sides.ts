/**
 * Opens the two databases of a move, locks the project in both against other runs, and reads and changes the state of the move.
 */
import { Context, Data, Duration, Effect, Layer, type Redacted, Schedule } from "effect"
import { SqlClient, SqlError, type Statement } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { startsOf, targetOf } from "../api/schema/States.ts"
import { sqlClients, DatabaseUrl } from "../sql/Connections.ts"
import { databaseIdentity, isUnavailable, reasonOf } from "../sql/Database.ts"
import { moveMachine, type MoveState, type MoveStep } from "../platform/MoveState.ts"

type Sql = SqlClient.SqlClient

/**
 * A SQL expression for the name that the publication, the subscription and the slot of a project have in common. It contains a
 * hash of the project's id, because an id may contain characters that a slot name may not.
 */
export const nameOf = (sql: Sql, projectId: Statement.Fragment): Statement.Fragment => sql`'move_' || md5(${projectId})`

/** A move can't begin or go on; the faults say what to do. */
class MoveRefused extends Data.TaggedError("MoveRefused")<{ readonly faults: ReadonlyArray<string> }> {
  override get message() {
    return this.faults.join("\n")
  }
}

/** The connection to a database, or the subscription, was lost. When both databases answer again, the step can be repeated. */
export class Lost extends Data.TaggedError("Lost")<{ readonly message: string }> {}

export const isLost = (error: unknown): boolean =>
  error instanceof Lost || (error instanceof SqlError.SqlError && isUnavailable(error))

export const refused = (...faults: ReadonlyArray<string>) => new MoveRefused({ faults })

/**
 * The two databases of a move. The mover (the running command) has one session in each. The session holds the locks of the move
 * and runs one statement at a time.
 */
export interface Sides {
  readonly projectId: ProjectId
  /** Name of the publication, the slot and the subscription. */
  readonly name: string
  readonly source: Sql
  readonly target: Sql
  /** The URL by which the target reaches the source. */
  readonly sourceUrl: Redacted.Redacted
  /** Identify the two databases: no other database has the same id. */
  readonly sourceId: string
  readonly targetId: string
}

/** The move in the row of a project: its state, and the other database. Both are null if the project is not being moved. */
export interface Mark {
  readonly state: MoveState | null
  readonly peer: string | null
  readonly isDeleted: boolean
}

/**
 * Seeds of a project's advisory locks. `project`: mutations share this lock (`enter_project`). `mover`: a run of the mover holds
 * this lock.
 */
export const seeds = { project: 0, mover: 1 } as const

export type Report = (step: string, detail?: string) => Effect.Effect<void>

export interface MoveOptions {
  readonly projectId: ProjectId
  readonly targetUrl: Redacted.Redacted
  readonly sourceUrl: Redacted.Redacted
  readonly report: Report
}

/** Maximum number of retries after a connection was lost, one second apart. */
const attempts = 60

/** Opens the sides and uses them. If a connection is lost meanwhile, opens and uses them again, up to `attempts` times. */
export const onSides = <A, E, R>(options: MoveOptions, use: (sides: Sides) => Effect.Effect<A, E, R>) => {
  const lose = (error: unknown) =>
    Effect.andThen(
      options.report("wait", `${reasonOf(error)}. Trying again until both databases answer`),
      new Lost({ message: reasonOf(error) })
    )
  const attempt = open(options).pipe(
    Effect.flatMap((sides) => Effect.catchIf(use(sides), isLost, lose)),
    Effect.scoped
  )
  const again = Effect.delay(attempt, Duration.seconds(1))
  return attempt.pipe(
    Effect.catchIf(
      (error) => error instanceof Lost,
      () => Effect.retry(again, { while: isLost, times: attempts })
    ),
    Effect.catchIf(isLost, (error) =>
      refused(
        reasonOf(error),
        "Run the command again once both databases answer: it goes on where it was. Before the switch, --abort ends the move"
      )
    )
  )
}

/** Opens the sides, and takes the lock of the mover on both. The locks are released when the scope or the session ends. */
const open = Effect.fnUntraced(function* ({ projectId, sourceUrl, targetUrl }: MoveOptions) {
  const source = yield* SqlClient.SqlClient
  const context = yield* Layer.build(Layer.fresh(sqlClients.operator).pipe(Layer.provide(DatabaseUrl.at(targetUrl))))
  const target = Context.get(context, SqlClient.SqlClient)
  const [sourceId, targetId] = [yield* identityOf(source), yield* identityOf(target)]
  const [row] = yield* source<{ readonly name: string }>`SELECT ${nameOf(source, source`${projectId}`)} AS name`
  if (sourceId === targetId) return yield* refused("--to is the database that the project is in")
  for (const side of [source, target]) {
    yield* take(side, projectId)
    // The pool would close a session that runs no statement for a minute.
    yield* Effect.forkScoped(Effect.repeat(Effect.ignore(side`SELECT 1`), Schedule.spaced(Duration.seconds(10))))
  }
  yield* Effect.addFinalizer(() => Effect.ignore(source`SELECT pg_advisory_unlock_all()`))
  const sides: Sides = { projectId, name: row?.name ?? "", source, target, sourceUrl, sourceId, targetId }
  return sides
})

const identityOf = (sql: Sql) =>
  Effect.map(sql<{ readonly id: string }>`SELECT ${databaseIdentity(sql)} AS id`, ([row]) => row?.id ?? "")

/** Takes the lock of the mover. Tries for 10 seconds, because the session of a killed run may still hold the lock. */
const take = (sql: Sql, projectId: ProjectId) =>
  sql<{ readonly taken: boolean }>`
    SELECT pg_try_advisory_lock(hashtextextended(${projectId}, ${seeds.mover})) AS taken`.pipe(
    Effect.flatMap(([row]) =>
      row?.taken === true
        ? Effect.void
        : refused(`Another run moves project ${projectId}: wait until it ends, or end it`)
    ),
    Effect.retry({
      while: (error) => error._tag === "MoveRefused",
      schedule: Schedule.spaced(Duration.millis(200)),
      times: 50
    })
  )

/**
 * A SQL condition: this session holds the project's advisory lock with `seed`, one of `seeds`, exclusively. A reopened session
 * holds no lock.
 */
const holds = (sql: Sql, projectId: ProjectId, seed: number) => sql`
  EXISTS (
    SELECT FROM pg_locks
    WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND objsubid = 1 AND granted AND mode = 'ExclusiveLock'
      AND ((classid::bigint << 32) | objid::bigint) = hashtextextended(${projectId}, ${seed})
  )`

export const markOf = (sql: Sql, projectId: ProjectId) =>
  Effect.map(
    sql<Mark>`
      SELECT move_state AS state, move_peer AS peer, deleted_at IS NOT NULL AS "isDeleted"
      FROM projects WHERE project_id = ${projectId}`,
    ([row]): Mark | undefined => row
  )

export const isArriving = (mark: Mark | undefined, { sourceId }: Pick<Sides, "sourceId">): boolean =>
  mark?.state === "arriving" && mark.peer === sourceId

/**
 * Changes the state of the project at the source by `move`, a transition of the state machine `moveMachine`. Fails if the current
 * state does not allow `move`, or if this session does not hold the lock `mover` of `seeds`. For `verified`, the session must
 * also hold the lock `project` exclusively.
 */
export const step = Effect.fnUntraced(function* ({ projectId, source }: Sides, move: MoveStep) {
  const to = targetOf(moveMachine, move)
  const changed = yield* source`
    UPDATE projects SET move_state = nullif(${to}, 'none'), move_peer = CASE WHEN ${to} <> 'none' THEN move_peer END
    WHERE project_id = ${projectId} AND move_state = ANY(${startsOf(moveMachine, move)}::text[])
      AND ${holds(source, projectId, seeds.mover)}
      AND (${move !== "verified"} OR ${holds(source, projectId, seeds.project)})
    RETURNING 1`
  if (changed.length === 0) return yield* new Lost({ message: `The session at the source was lost (${move})` })
})
