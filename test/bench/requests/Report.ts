/** Summary of the rounds: medians, the ratio of the contenders round by round, and a table. */
import { table } from "../../../src/cli/Output.ts"
import { fixed, median, ranged, round, spread } from "../Figures.ts"
import type { CaseName } from "./Cases.ts"
import type { Round } from "./Round.ts"

/** The rounds of one case in pairs; both rounds of a pair were measured at about the same time. */
export interface MeasuredCase {
  readonly case: CaseName
  readonly contenders: readonly [string, string]
  readonly rounds: ReadonlyArray<readonly [Round, Round]>
  /** Rounds with one connection: the time of a lone request. */
  readonly lone: ReadonlyArray<readonly [Round, Round]>
}

const fields = ["requestsPerSecond", "p50", "p95", "p99", "cpuMicros", "loadBusy", "bytes"] as const

const medians = (rounds: ReadonlyArray<Round>) =>
  Object.fromEntries(fields.map((field) => [field, round(median(rounds.map((round) => round[field])))]))

const summary = ({ case: name, contenders, lone, rounds }: MeasuredCase) => ({
  case: name,
  contenders,
  [contenders[0]]: medians(rounds.map(([one]) => one)),
  [contenders[1]]: medians(rounds.map(([, other]) => other)),
  ratio: {
    requestsPerSecond: spread(rounds.map(([one, other]) => one.requestsPerSecond / other.requestsPerSecond)),
    p99: spread(rounds.map(([one, other]) => one.p99 / other.p99)),
    cpuMicros: spread(rounds.map(([one, other]) => one.cpuMicros / other.cpuMicros)),
    loneP50: spread(lone.map(([one, other]) => one.p50 / other.p50))
  },
  rounds,
  lone
})

/** Returns the document of `--json`. */
export const document = (
  measured: ReadonlyArray<MeasuredCase>,
  settings: Record<string, unknown>,
  notes: ReadonlyArray<string>
) => ({ settings, notes, cases: measured.map(summary) })

/** Returns notes on the conditions of the measurement. */
export const remarks = (measured: ReadonlyArray<MeasuredCase>): ReadonlyArray<string> =>
  measured
    .filter(({ rounds }) => rounds.flat().some(({ loadBusy }) => loadBusy > 0.9))
    .map(({ case: name }) => `${name}: the load was busy all the time, so the servers may be faster, and further apart`)

/** Returns the table, with a line for each contender of each case and their ratio below. */
export const text = (measured: ReadonlyArray<MeasuredCase>, notes: ReadonlyArray<string>): string => {
  const of = (rounds: ReadonlyArray<Round>, field: (typeof fields)[number], digits: number) =>
    fixed(median(rounds.map((round) => round[field])), digits)
  const line = (name: string, contender: string, rounds: ReadonlyArray<Round>, lone: ReadonlyArray<Round>) => [
    name,
    contender,
    of(rounds, "requestsPerSecond", 0),
    of(rounds, "p50", 1),
    of(rounds, "p95", 1),
    of(rounds, "p99", 1),
    of(rounds, "cpuMicros", 0),
    of(lone, "p50", 2)
  ]
  const ratio = (rounds: MeasuredCase["rounds"], field: (typeof fields)[number]) =>
    ranged(
      rounds.map(([one, other]) => one[field] / other[field]),
      2
    )
  const lines = measured.flatMap(({ case: name, contenders, lone, rounds }) => [
    line(
      name,
      contenders[0],
      rounds.map(([one]) => one),
      lone.map(([one]) => one)
    ),
    line(
      "",
      contenders[1],
      rounds.map(([, other]) => other),
      lone.map(([, other]) => other)
    ),
    [
      "",
      "ratio",
      ratio(rounds, "requestsPerSecond"),
      ...(["p50", "p95", "p99", "cpuMicros"] as const).map((f) => ratio(rounds, f)),
      ratio(lone, "p50")
    ]
  ])
  const head = ["CASE", "", "REQUESTS/S", "P50 MS", "P95 MS", "P99 MS", "CPU µS/REQUEST", "LONE P50 MS"]
  return [table([head, ...lines]), ...notes].join("\n")
}
