import type { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { BenchFailed } from "../Stage.ts"
import type { Work } from "./Work.ts"

/** A system that makes deliveries, with its own process and database. */
export interface Contender {
  readonly name: string
  readonly pid: number
  /** Adds all of the work at once. */
  readonly give: (work: ReadonlyArray<Work>) => Effect.Effect<void, SqlError.SqlError | BenchFailed>
  /** Whether all of the added work is recorded as done. */
  readonly done: Effect.Effect<boolean, SqlError.SqlError | BenchFailed>
}
