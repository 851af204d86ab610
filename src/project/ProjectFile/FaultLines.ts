/** Formats faults of a project file as lines of text. */
import type { Fault } from "../../api/schema/Faults.ts"
import { withEscapes } from "../../platform/UnsafeText.ts"

/** Formats a fault: `clients/3/email: must be a mail address`. A fault of the file as a whole has no path. */
export const lineOf = ({ message, path }: Fault): string =>
  withEscapes(path.length === 0 ? `the file ${message}` : `${path.map(String).join("/")}: ${message}`)
