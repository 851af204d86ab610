/** Formats faults of a project file as lines of text. */
import type { Fault } from "../../api/schema/Faults.ts"

/** Characters of names and ids that would break a line on the operator's terminal, or be invisible. */
// oxlint-disable-next-line no-control-regex -- control characters are what this is about
const invisible = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]|\p{Surrogate}/gu

const visible = (text: string) =>
  text.replace(invisible, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`)

/** Formats a fault: `clients/3/email: must be a mail address`. A fault of the file as a whole has no path. */
export const lineOf = ({ message, path }: Fault): string =>
  visible(path.length === 0 ? `the file ${message}` : `${path.map(String).join("/")}: ${message}`)
