/** The two databases of a move: their sessions, the lock of the mover, and the marks of the project on both. */
import { Context, Data, Duration, Effect, Layer, type Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import type { ProjectId } from "../api/schema/Ids.ts"
import { startsOf } from "../api/schema/States.ts"
import { clients, DatabaseUrl } from "../platform/database/Database.ts"
import { type Move, moves, type State } from "../platform/Moves.ts"

type Sql = SqlClient.SqlClient

/** A move can't begin or go on; the faults say what to do. */
export class MoveRefused extends Data.TaggedError("MoveRefused")<{ readonly faults: ReadonlyArray<string> }> {
  override get message() {
    return this.faults.join("\n")
  }
}

export const refused = (...faults: ReadonlyArray<string>) => new MoveRefused({ faults })

/** Each side has one session, which holds its locks, and runs one statement at a time. */
export interface Sides {
  readonly projectId: ProjectId
  /** Name of the publication, the slot and the subscription. */
  readonly name: string
  readonly source: Sql
  readonly target: Sql
  /** The URL by which the target reaches the source. */
  readonly sourceUrl: Redacted.Redacted
  /** What distinguishes the databases from all others. */
  readonly sourceId: string
  readonly targetId: string
}

/** The row of the project: none, or the state of its move and the other database of the move. */
export interface Mark {
  readonly state: State | null
  readonly peer: string | null
  readonly isDeleted: boolean
}

/** The lock that mutations share (`enter_project`), and the lock of a mover. */
export const seeds = { project: 0, mover: 1 } as const

/** Replication objects have names of their own: ids of projects have characters that names of slots lack. */
export const nameOf = (projectId: string): string => `move_${createHash("md5").update(projectId).digest("hex")}`

/** Opens the sides, and takes the lock of the mover on both. The sessions end with the scope, and the locks with them. */
export const open = Effect.fnUntraced(function* (
  projectId: ProjectId,
  { sourceUrl, targetUrl }: { readonly sourceUrl: Redacted.Redacted; readonly targetUrl: Redacted.Redacted }
) {
  const source = yield* SqlClient.SqlClient
  const context = yield* Layer.build(Layer.fresh(clients.operator).pipe(Layer.provide(DatabaseUrl.at(targetUrl))))
  const target = Context.get(context, SqlClient.SqlClient)
  const [sourceId, targetId] = [yield* identityOf(source), yield* identityOf(target)]
  if (sourceId === targetId) return yield* refused("--to is the database that the project is in")
  for (const side of [source, target]) {
    yield* take(side, projectId)
    // A session without a statement for a minute would be closed.
    yield* Effect.forkScoped(Effect.repeat(Effect.ignore(side`SELECT 1`), Schedule.spaced(Duration.seconds(10))))
  }
  const sides: Sides = { projectId, name: nameOf(projectId), source, target, sourceUrl, sourceId, targetId }
  return sides
})

const identityOf = (sql: Sql) =>
  Effect.map(
    sql<{ readonly id: string }>`
      SELECT concat_ws('/', (SELECT system_identifier FROM pg_control_system()), current_database()) AS id`,
    ([row]) => row?.id ?? ""
  )

/** The last statement of a session that was killed may still run. */
const take = (sql: Sql, projectId: ProjectId) =>
  sql<{ readonly taken: boolean }>`
    SELECT pg_try_advisory_lock(hashtextextended(${projectId}, ${seeds.mover})) AS taken`.pipe(
    Effect.flatMap(([row]) =>
      row?.taken === true ? Effect.void : refused(`Another run moves project ${projectId}: wait until it ends`)
    ),
    Effect.retry({
      while: (error) => error._tag === "MoveRefused",
      schedule: Schedule.spaced(Duration.millis(200)),
      times: 50
    })
  )

/** A SQL condition: this session holds a lock of the project. A session that was opened anew holds none. */
const holds = (sql: Sql, projectId: ProjectId, seed: number) => sql`
  EXISTS (
    SELECT FROM pg_locks
    WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND objsubid = 1 AND granted AND mode = 'ExclusiveLock'
      AND ((classid::bigint << 32) | objid::bigint) = hashtextextended(${projectId}, ${seed})
  )`

/** Reads the mark of the project; none if there is no such project. */
export const markOf = (sql: Sql, projectId: ProjectId) =>
  Effect.map(
    sql<Mark>`
      SELECT move_state AS state, move_peer AS peer, deleted_at IS NOT NULL AS "isDeleted"
      FROM projects WHERE project_id = ${projectId}`,
    ([row]): Mark | undefined => row
  )

/**
 * Makes a move of the source. Fails if its state is another one, or if this session does not hold the locks: of the mover, and
 * while the project is fenced, of mutations.
 */
export const step = Effect.fnUntraced(function* ({ projectId, source }: Sides, move: Move) {
  const starts = startsOf(moves, move)
  for (const from of starts) {
    const to = moves.moves[move][from] ?? "none"
    const changed = yield* source`
      UPDATE projects SET move_state = ${to === "none" ? null : to}::text,
        move_peer = CASE WHEN ${to === "none"} THEN NULL ELSE move_peer END
      WHERE project_id = ${projectId} AND move_state = ${from} AND ${holds(source, projectId, seeds.mover)}
        AND (${move !== "verified"} OR ${holds(source, projectId, seeds.project)})
      RETURNING 1`
    if (changed.length > 0) return
  }
  return yield* refused(`The session at the source was lost (${move}). Nothing is lost: run the command again`)
})
