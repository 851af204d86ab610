/**
 * Moves a project from this database (the source) to the database of another cell (the target), in steps.
 * `platform/MoveState.ts` has the states of a move and their transitions.
 *
 *   copy      a publication and a subscription copy the rows, and follow the changes
 *   rest      workers claim nothing of the project any more, and their calls in flight end
 *   fence     mutations are refused, and the calls of earlier mutations end
 *   verify    the target receives every change, and both sides are compared
 *   switch    the source answers no request of the project, and the target takes the project over
 *   clean     the next run deletes the project at the source, once the router leads to the target
 *
 * Each step can be repeated, so a run continues where the last run stopped. The rest and the fence last only as
 * long as the run's database session. If the run dies, the project works as before. The next run rests and fences it again.
 */
import { Duration, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { Operator, recordAction, recordDone } from "../operating/Audit.ts"
import { isClosed, type MoveState } from "../platform/MoveState.ts"
import { ProjectUnknown } from "../operating/Refusals.ts"
import type { SealedTable } from "../secrets/SealedValues.ts"
import { removeProject } from "../project/Deletion.ts"
import { check, fence, lift, limited, olderEnded, rest, verify } from "./Checks.ts"
import * as Replication from "./Replication.ts"
import {
  isArriving,
  isLost,
  Lost,
  type Mark,
  markOf,
  onSides,
  type MoveOptions,
  refused,
  type Report,
  type Sides,
  step
} from "./Sides.ts"

export interface Moved {
  readonly projectId: ProjectId
  /**
   * `switched`: the target serves the project. `cleaned`: the source has no records of the project any more. `aborted`: the
   * source serves the project.
   */
  readonly state: "switched" | "cleaned" | "aborted"
  /** Number of rows that this run has compared; null if it has compared none. */
  readonly rows: number | null
  /** Duration of the fence in milliseconds; null if this run has not fenced the project. */
  readonly fencedMs: number | null
}

/** Maximum duration of a fence. If a call stays in flight longer, the run fails. A later run then waits for the call again. */
const longestFence = Duration.seconds(45)
/** Once the target lags behind the source's log by fewer bytes than this, the copy only waits for the last changes and ends. */
const closeBehind = 1_000_000

/** Reads the project's `Mark` at the source. Fails if the project is unknown, or if this database is the target of its move. */
const stateOf = Effect.fnUntraced(function* (projectId: ProjectId) {
  const mark = yield* markOf(yield* SqlClient.SqlClient, projectId)
  if (mark === undefined) return yield* new ProjectUnknown({ projectId })
  if (mark.state === "arriving") return yield* refused("The project is moving to this database: run at its source")
  return mark
})

/** Starts or continues a move until the target serves the project. The next run deletes the project at the source. */
export const move = Effect.fn("Moves.move")(function* (options: MoveOptions, sealed: ReadonlyArray<SealedTable>) {
  const { projectId, report } = options
  yield* stateOf(projectId)
  return yield* onSides(
    options,
    Effect.fnUntraced(function* (sides) {
      const mark = yield* stateOf(projectId)
      if (mark.state === "aborting") return yield* refused("The move is being aborted: run with --abort")
      if (mark.state !== "switched") yield* check(sides, sealed, mark)
      else if (mark.peer !== sides.targetId)
        return yield* refused("Another database serves the project: name that one by --to")
      return yield* from(sides, mark, report)
    })
  )
})

const from = Effect.fnUntraced(function* (sides: Sides, { isDeleted, state }: Mark, report: Report) {
  const { projectId } = sides
  const moved: Moved = { projectId, state: "switched", rows: null, fencedMs: null }
  if (state === "switched") return yield* clean(sides, isDeleted, report)
  if (state === "switching") {
    yield* report("switch", "the target takes over")
    yield* handOver(sides)
    yield* release(sides)
    return moved
  }
  if (isDeleted) return yield* isBeingDeleted(sides)
  yield* copy(sides, state, report)
  yield* report("rest", "waiting for what is in flight")
  yield* rest(sides)
  const [fenced, rows] = yield* Effect.timed(
    Effect.gen(function* () {
      const rows = yield* fenceAndVerify(sides, report)
      yield* report("switch", "the source closes, the target takes over")
      yield* step(sides, "verified")
      yield* handOver(sides)
      return rows
    })
  )
  yield* release(sides)
  return { ...moved, rows, fencedMs: Math.round(Duration.toMillis(fenced)) }
})

const isBeingDeleted = ({ projectId }: Sides) => refused(`Project ${projectId} is being deleted`)

const fenceAndVerify = (sides: Sides, report: Report) =>
  Effect.gen(function* () {
    yield* report("fence", `mutations are refused, for at most ${Duration.format(longestFence)}`)
    yield* fence(sides)
    yield* report("verify", "comparing every table")
    return yield* verify(sides)
  }).pipe(limited(longestFence, "The fence was lifted"))

const copy = Effect.fnUntraced(function* (sides: Sides, state: MoveState | null, report: Report) {
  const { source } = sides
  if (state === null) {
    const { actor } = yield* Operator
    const marked = yield* source`
      WITH begun AS (
        UPDATE projects SET move_state = 'copying', move_peer = ${sides.targetId}
        WHERE project_id = ${sides.projectId} AND move_state IS NULL AND deleted_at IS NULL RETURNING project_id
      ),
      ${recordAction(source, { actor, action: "project.move", target: sides.projectId, detail: { to: sides.targetId } }, "begun")}
      SELECT FROM begun`
    // A deletion of the project has begun since its state was read.
    if (marked.length === 0) return yield* isBeingDeleted(sides)
  }
  if (state === "resting" || state === "fenced") yield* step(sides, "resumed")
  yield* report("copy", "making publication and subscription")
  yield* Replication.make(sides).pipe(
    Effect.tapError((error) => (state === null && !isLost(error) ? Effect.ignore(undo(sides)) : Effect.void))
  )
  while (true) {
    const { behind, copied, tables } = yield* Replication.progress(sides)
    if (copied === tables && behind < closeBehind) break
    yield* copied === tables
      ? report("catch up", `${Math.ceil(behind / 1_000_000)} MB behind`)
      : report("copy", `${copied} of ${tables} tables`)
    yield* Effect.sleep(Duration.millis(200))
  }
  yield* report("catch up", "waiting until the target has every change")
  yield* Replication.drained(sides)
})

/** Releases the lock that mutations share, and removes the replication. Called when the target already serves the project. */
const release = Effect.fnUntraced(function* (sides: Sides) {
  yield* lift(sides)
  yield* Replication.drop(sides)
  yield* step(sides, "handed_over")
})

const clean = Effect.fnUntraced(function* (sides: Sides, isDeleted: boolean, report: Report) {
  const { projectId, source, target } = sides
  const there = yield* markOf(target, projectId)
  // In the state `arriving`, the target has never served the project.
  if (isArriving(there, sides)) {
    return yield* refused(
      `The target does not serve project ${projectId}, as if it had been restored to a time before the switch`,
      "The source still has all of its records. Restore the target to a later time, and run again"
    )
  }
  // The source may have the only copy, unless a run has begun to delete it, or an operator has confirmed that it may be deleted.
  if (there === undefined && !isDeleted) {
    return yield* refused(
      `The target has no project ${projectId}: it was restored to a time before the move, or has deleted the project or moved it on`,
      "The source still has all of its records. deploy/CELLS.md says how it takes the project back, and how to confirm that it is to be deleted"
    )
  }
  yield* report("clean", "deleting the project at the source")
  yield* removeFrom(source, projectId, "switched", report)
  return { projectId, state: "cleaned", rows: null, fencedMs: null } satisfies Moved
})

const removeFrom = (sql: SqlClient.SqlClient, projectId: ProjectId, state: MoveState, report: Report) =>
  removeProject(projectId, state, (rows) => report("clean", `${rows} rows deleted`)).pipe(
    Effect.provideService(SqlClient.SqlClient, sql)
  )

/** Ends a move before its switch. The source is then as it was before the move, and nothing is left at the target. */
export const abort = Effect.fn("Moves.abort")(function* (options: MoveOptions) {
  const { projectId, report } = options
  yield* stateOf(projectId)
  return yield* onSides(
    options,
    Effect.fnUntraced(function* (sides) {
      const { peer, state } = yield* stateOf(projectId)
      if (state === null) return yield* refused(`Project ${projectId} is not being moved`)
      if (state === "switching")
        return yield* refused("The target takes the project over: run without --abort, then move it back from there")
      if (isClosed(state)) return yield* refused("The target serves the project by now: move it back from there")
      if (peer !== sides.targetId)
        return yield* refused("The project is being moved to another database: name that one by --to")
      yield* report("abort", "removing what the move has made")
      yield* undo(sides)
      return { projectId, state: "aborted", rows: null, fencedMs: null } satisfies Moved
    })
  )
})

const undo = Effect.fnUntraced(function* (sides: Sides) {
  const { projectId, target } = sides
  yield* step(sides, "abandoned")
  yield* Replication.drop(sides)
  const there = yield* markOf(target, projectId)
  if (isArriving(there, sides)) yield* removeFrom(target, projectId, "arriving", () => Effect.void)
  yield* recordDone(projectId, { action: "project.move.abort", target: projectId })
  yield* step(sides, "undone")
})

/**
 * Processes cache API keys with the state of the project, for less than this time. So the source answers no read of a project
 * that has been `switching` for this time.
 */
const keysCachedFor = Duration.seconds(1)

/**
 * Hands the project over to the target. The source has closed the project (state `switching`), but earlier statements may still
 * commit. `handOver` waits until these have ended and the target has their changes. The wait is usually short, because the fence
 * has waited for older statements. Then the target opens the project with the values of the source's row.
 */
const handOver = Effect.fnUntraced(function* (sides: Sides) {
  const { projectId, source, target } = sides
  const there = yield* markOf(target, projectId)
  // In every state but `arriving`, an earlier run has already handed the project over.
  if (there !== undefined && there.state !== "arriving") return
  const lacks =
    there === undefined
      ? `The target has no project ${projectId}, as if it had been restored to a time before the move`
      : isArriving(there, sides)
        ? "The target has no subscription of the move, as after a restore"
        : `Project ${projectId} arrives at the target from another database`
  // `resume` enables the subscription, which a crash of the source may have disabled. It returns false if there is no
  // subscription.
  if (!isArriving(there, sides) || !(yield* Replication.resume(sides))) {
    return yield* refused(
      lacks,
      "The source still has all of its records. Restore the target to a later time and run again, or let the source take the project back: deploy/CELLS.md says how"
    )
  }
  yield* Effect.sleep(keysCachedFor)
  yield* olderEnded(source)
  yield* Replication.drained(sides)
  const { project_id: _, ...row } = yield* Replication.rowOf(sides)
  const columns = Object.keys(row).map((name) => `"${name}" = next."${name}"`)
  const { actor } = yield* Operator
  const received = yield* target`
    WITH received AS (
      UPDATE projects SET ${target.literal(columns.join(", "))}
      FROM jsonb_populate_record(NULL::projects, ${JSON.stringify({ ...row, move_state: null, move_peer: null })}::jsonb) AS next
      WHERE projects.project_id = ${projectId} AND projects.move_state = 'arriving'
      RETURNING projects.project_id
    ),
    ${recordAction(target, { actor, action: "project.move", target: projectId, detail: { from: sides.sourceId } }, "received")}
    SELECT 1 FROM received`
  if (received.length === 0) return yield* new Lost({ message: "The row of the project at the target has changed" })
})
