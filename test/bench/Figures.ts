/** Summaries of figures. Ratios are computed pair by pair: both values of a pair were measured at about the same time. */

const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((left, right) => left - right)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2
}

/** Returns the value that the fraction `q` of all values does not exceed. */
export const quantile = (values: ReadonlyArray<number>, q: number): number => {
  const sorted = values.toSorted((left, right) => left - right)
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))] ?? Number.NaN
}

export const fixed = (value: number, digits: number) => (Number.isNaN(value) ? "-" : value.toFixed(digits))

/** Formats values for a table: the median, and the range in brackets. */
export const ranged = (values: ReadonlyArray<number>, digits: number) =>
  `${fixed(median(values), digits)} (${fixed(Math.min(...values), digits)}-${fixed(Math.max(...values), digits)})`
