/** Rounds of contenders that take turns, and their table: medians and ranges, and ratios round by round. */
import { Effect } from "effect"
import { table } from "../../src/cli/Output.ts"
import { ranged } from "./Figures.ts"
import { progress } from "./Options.ts"

/** Title and decimal places of each column. */
const columns = {
  requestsPerSecond: ["REQUESTS/S", 0],
  p50: ["P50 MS", 1],
  p95: ["P95 MS", 1],
  p99: ["P99 MS", 1],
  cpuMicros: ["CPU µs EACH", 0],
  promoted: ["PROMOTED B EACH", 0],
  /** Near 1, the load was the limit: the servers may be faster, and further apart. */
  loadBusy: ["LOAD BUSY", 2],
  deliveriesPerSecond: ["DELIVERIES/S", 0],
  postgresMicros: ["POSTGRESQL µs EACH", 0],
  bothMicros: ["BOTH µs EACH", 0]
} as const

type Field = keyof typeof columns
/** The measurements of a round. */
type Figures<F extends Field> = Readonly<Record<F, number>>

/**
 * Runs rounds of all contenders in an order that rotates from round to round, and returns the lines of a table: the figures of
 * each contender, and the ratios of the first one to it.
 */
export const compare = Effect.fnUntraced(function* <A extends { readonly name: string }, F extends Field, E, R>(
  title: string,
  contenders: ReadonlyArray<A>,
  rounds: number,
  fields: ReadonlyArray<F>,
  run: (contender: A) => Effect.Effect<Figures<F>, E, R>
) {
  // The first round is not counted: code is compiled and connections are opened.
  for (const contender of contenders) yield* run(contender)
  const found = new Map(contenders.map((contender) => [contender, new Array<Figures<F>>()]))
  for (let i = 0; i < rounds; i++) {
    for (const [at] of contenders.entries()) {
      const contender = contenders[(at + i) % contenders.length]
      if (contender === undefined) continue
      const figures = yield* run(contender)
      found.get(contender)?.push(figures)
      const line = fields.map((field) => `${field} ${figures[field].toFixed(1)}`)
      yield* progress(`${title} ${i + 1}/${rounds}: ${contender.name}: ${line.join(", ")}`)
    }
  }
  const [ours = []] = found.values()
  const cells = (valueOf: (field: F, round: number) => number, digitsOf: (field: F) => number) =>
    fields.map((field) =>
      ranged(
        ours.map((_, round) => valueOf(field, round)),
        digitsOf(field)
      )
    )
  return [...found].flatMap(([{ name }, theirs], i) => {
    const value = (field: F, round: number) => theirs[round]?.[field] ?? NaN
    const ratio = (field: F, round: number) => (ours[round]?.[field] ?? NaN) / value(field, round)
    const line = [i === 0 ? title : "", name, ...cells(value, (field) => columns[field][1])]
    return i === 0 ? [line] : [line, ["", "ratio", ...cells(ratio, () => 2)]]
  })
})

/** Returns the table of some lines. */
export const text = (fields: ReadonlyArray<Field>, lines: ReadonlyArray<ReadonlyArray<string>>) =>
  table([["", "", ...fields.map((field) => columns[field][0])], ...lines])
