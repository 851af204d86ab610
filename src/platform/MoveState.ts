/**
 * The move of a project to another cell (contract §18), as the processes of both cells see it. A cell is a database with its
 * processes. The column `projects.move_state` has the state. The mover, a command in `src/cells`, carries the move out.
 *
 * `arriving` is the state at the target; all others are states at the source. A closed project (`isClosed`) answers no request,
 * and no background work touches it. While the mover runs, no background work touches a project in `resting` or `fenced` either.
 * In `fenced`, the mover holds the advisory lock of the project exclusively. Mutations take this lock in shared mode.
 */
import type { SqlClient, Statement } from "effect/sql"
import { machine } from "../api/schema/States.ts"

export const moveMachine = machine({
  states: ["copying", "resting", "fenced", "switching", "switched", "aborting", "arriving"],
  /** `none` stands for no state: `move_state` is null, or the row of the project is removed. */
  others: ["none"],
  moves: {
    /** The copy has all rows, and follows the changes closely. */
    caught_up: { copying: "resting" },
    /** Background workers have no call to a provider or a webhook in flight for the project. */
    rested: { resting: "fenced" },
    /** The mover has died, and the next run continues the copy. */
    resumed: { resting: "copying", fenced: "copying" },
    /** Both sides are equal. From here on the move can't be aborted. */
    verified: { fenced: "switching" },
    /** The target serves the project, and nothing is replicated any more. */
    handed_over: { switching: "switched" },
    /** The records are deleted at the source. */
    cleaned: { switched: "none" },
    abandoned: { copying: "aborting", resting: "aborting", fenced: "aborting", aborting: "aborting" },
    undone: { aborting: "none" },
    received: { arriving: "none" }
  }
})
export type MoveState = (typeof moveMachine)["states"][number]
export type MoveStep = keyof typeof moveMachine.moves

export const moveTexts: Readonly<Record<MoveState, string>> = {
  copying: "This project is being moved to another cell, which copies its rows.",
  resting: "This project is being moved to another cell. Nothing is sent for it until what is in flight has ended.",
  fenced: "This project is being moved to another cell. Its mutations are refused while both sides are compared.",
  switching: "This project is being moved to another cell, which takes over.",
  switched: "Another cell serves this project. Once the router leads there, run project move again.",
  aborting: "The move of this project to another cell is being aborted.",
  arriving: "This project is being moved to this cell. The other cell serves it until then."
}

/**
 * The states in which this database answers no request of the project, because another database serves or will serve the
 * project.
 */
const closed: ReadonlyArray<MoveState> = ["switching", "switched", "arriving"]

export const isClosed = (state: MoveState | null): boolean => state !== null && closed.includes(state)

/** Returns an SQL condition: `state`, the `move_state` of a project, is none of the closed states. */
export const livesHere = (sql: SqlClient.SqlClient, state: Statement.Fragment): Statement.Fragment =>
  sql`(${state} IS NULL OR ${state} NOT IN ${sql.in(closed)})`

/**
 * Returns an SQL condition: background work may touch the project whose id is in the column `projectId`. `resting_projects` runs
 * once per statement.
 */
export const isAwake = (sql: SqlClient.SqlClient, projectId: string): Statement.Fragment =>
  sql`${sql.literal(projectId)} <> ALL ((SELECT resting_projects())::text[])`
