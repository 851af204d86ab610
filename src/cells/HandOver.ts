/** The step of a move in which the target takes the project over. */
import { Duration, Effect } from "effect"
import { Operator, recordAction } from "../operators/Audit.ts"
import { olderEnded } from "./Fence.ts"
import * as Replication from "./Replication.ts"
import { isArriving, Lost, markOf, refused, type Sides } from "./Sides.ts"

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
export const handOver = Effect.fnUntraced(function* (sides: Sides) {
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
