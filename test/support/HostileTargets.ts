/** Parts of a request target that are made to be as expensive as possible, each repeated up to a length. */

const pieces: Readonly<Record<string, string>> = {
  "open percent signs": "%",
  "open percent signs and semicolons": "%;",
  "encoded percent signs": "%25",
  "percent signs that are encoded twice": "%2525",
  "bytes that are not UTF-8": "%FF",
  "encoded slashes": "%2F",
  "encoded zeros": "%00",
  semicolons: ";",
  "number signs": "#",
  "plus signs": "+",
  "equals signs": "=",
  ampersands: "&",
  parameters: "a&",
  "parameters with open percent signs": "%&",
  "parameters that are not UTF-8": "%FF&",
  "parameters with values": "a=1&",
  segments: "/a",
  "segments of semicolons": "/;",
  "segments of encoded percent signs": "/%25",
  "segments that are not UTF-8": "/%FF",
  "segments of dots": "/..",
  slashes: "/"
}

/** Length of a hostile part. Node refuses a header section of more than 16 KiB. */
const length = 14_000

const repeated = (piece: string) => piece.repeat(length / piece.length)

/** The parts by their names. */
export const hostileParts: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(pieces).map(([name, piece]) => [name, repeated(piece)])
)

/** A part of the same length that is not hostile. */
export const plainPart = repeated("a")
