/** Figures summed up. Ratios are taken pair by pair: both of a pair had the same moment of the machine. */

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((left, right) => left - right)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2
}

/** The value that so large a part of all does not exceed. */
export const quantile = (values: ReadonlyArray<number>, q: number): number => {
  const sorted = values.toSorted((left, right) => left - right)
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN
}

/** To two digits; null where there is no such figure, as JSON has it. */
export const round = (value: number) => (Number.isNaN(value) ? null : Math.round(value * 100) / 100)

/** As a document has it. */
export const spread = (values: ReadonlyArray<number>) => ({
  median: round(median(values)),
  low: round(Math.min(...values)),
  high: round(Math.max(...values))
})

export const fixed = (value: number, digits: number) => (Number.isNaN(value) ? "-" : value.toFixed(digits))

/** As a table has it: the median, and the range in brackets. */
export const ranged = (values: ReadonlyArray<number>, digits: number) =>
  `${fixed(median(values), digits)} (${fixed(Math.min(...values), digits)}-${fixed(Math.max(...values), digits)})`
