import type { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { BenchFailed } from "../Stage.ts"
import type { Work } from "./Work.ts"

/** A system that makes deliveries, in a process and a database of its own. */
export interface Contender {
  readonly name: string
  readonly pid: number
  /** Makes work known, all of it at once. */
  readonly give: (work: ReadonlyArray<Work>) => Effect.Effect<void, SqlError.SqlError | BenchFailed>
  /** Whether all that was given is recorded as done. */
  readonly done: Effect.Effect<boolean, SqlError.SqlError | BenchFailed>
}
