/** The summary of a comparison: medians and ranges of the rounds, and ratios round by round. */
import { table } from "../../../src/cli/Output.ts"
import { ranged } from "../Figures.ts"

/** The measurements of a round. */
export type Figures = Readonly<Record<string, number>>

export interface Comparison {
  readonly title: string
  readonly names: ReadonlyArray<string>
  /** The pairs of contenders whose ratio is reported. */
  readonly ratios: ReadonlyArray<readonly [name: string, to: string]>
  readonly rounds: ReadonlyArray<Readonly<Record<string, Figures>>>
}

/** Title and decimal places of each column. */
const columns: Readonly<Record<string, readonly [head: string, digits: number]>> = {
  deliveriesPerSecond: ["DELIVERIES/S", 0],
  cpuMicros: ["CPU µs/DELIVERY", 0],
  postgresMicros: ["POSTGRESQL µs/DELIVERY", 0],
  bothMicros: ["BOTH µs/DELIVERY", 0]
}

const fieldsOf = ({ names: [name = ""], rounds: [round = {}] }: Comparison) => Object.keys(round[name] ?? {})

const valuesOf = ({ rounds }: Comparison, name: string, field: string) =>
  rounds.map((round) => round[name]?.[field] ?? Number.NaN)

const ratioOf = (comparison: Comparison, name: string, to: string, field: string) => {
  const others = valuesOf(comparison, to, field)
  return valuesOf(comparison, name, field).map((value, i) => value / (others[i] ?? Number.NaN))
}

/** Returns a table with a line for each contender and each ratio: the median, and the range in brackets. */
export const text = (comparison: Comparison): string => {
  const fields = fieldsOf(comparison)
  const lines = comparison.names.map((name) => [
    name,
    ...fields.map((field) => ranged(valuesOf(comparison, name, field), columns[field]?.[1] ?? 0))
  ])
  const ratios = comparison.ratios.map(([name, to]) => [
    `${name} / ${to}`,
    ...fields.map((field) => ranged(ratioOf(comparison, name, to, field), 2))
  ])
  const head = [comparison.title.toUpperCase(), ...fields.map((field) => columns[field]?.[0] ?? field)]
  return table([head, ...lines, ...ratios])
}
