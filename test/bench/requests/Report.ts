/** The table of the rounds: medians, and the ratio of the contenders round by round. */
import { table } from "../../../src/cli/Output.ts"
import { fixed, median, ranged } from "../Figures.ts"
import type { CaseName } from "./Cases.ts"
import type { Round } from "./Round.ts"

/** The rounds of one case in pairs; both rounds of a pair were measured at about the same time. */
export interface MeasuredCase {
  readonly case: CaseName
  readonly contenders: readonly [string, string]
  readonly rounds: ReadonlyArray<readonly [Round, Round]>
}

/** Title and decimal places of each column. */
const columns = {
  requestsPerSecond: ["REQUESTS/S", 0],
  p50: ["P50 MS", 1],
  p95: ["P95 MS", 1],
  p99: ["P99 MS", 1],
  cpuMicros: ["CPU µS/REQUEST", 0],
  promoted: ["PROMOTED B/REQUEST", 0]
} as const
const fields = ["requestsPerSecond", "p50", "p95", "p99", "cpuMicros", "promoted"] as const

/** Returns the table, with a line for each contender of each case and their ratio below, and notes on the conditions. */
export const text = (measured: ReadonlyArray<MeasuredCase>): string => {
  const line = (rounds: ReadonlyArray<Round>) =>
    fields.map((field) => fixed(median(rounds.map((round) => round[field])), columns[field][1]))
  const lines = measured.flatMap(({ case: name, contenders, rounds }) => [
    [name, contenders[0], ...line(rounds.map(([one]) => one))],
    ["", contenders[1], ...line(rounds.map(([, other]) => other))],
    [
      "",
      "ratio",
      ...fields.map((field) =>
        ranged(
          rounds.map(([one, other]) => one[field] / other[field]),
          2
        )
      )
    ]
  ])
  const notes = measured
    .filter(({ rounds }) => rounds.flat().some(({ loadBusy }) => loadBusy > 0.9))
    .map(({ case: name }) => `${name}: the load was busy all the time, so the servers may be faster, and further apart`)
  return [table([["CASE", "", ...fields.map((field) => columns[field][0])], ...lines]), ...notes].join("\n")
}
