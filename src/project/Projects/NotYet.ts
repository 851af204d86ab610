/** The parts of the project file that this version reads but can't apply. An entry goes when its part comes. */
import type { Fault } from "../../platform/Faults.ts"
import type { ProjectFile } from "../ProjectFile.ts"
import { find } from "./Paths.ts"

const notYet = ["installations/*/importProfile", "installations/*/stagedRecords"]

/** Whether a value asks for nothing: what a new record has without it. */
const isEmpty = (value: unknown) =>
  value === undefined || value === null || value === false || (Array.isArray(value) && value.length === 0)

/** What the file asks for that can't be done. */
export const notYetFaults = (file: ProjectFile): ReadonlyArray<Fault> =>
  notYet
    .flatMap((pattern) => find(file, pattern))
    .filter(({ value }) => !isEmpty(value))
    .map(({ path }) => ({ path, message: "this version can't apply this part yet" }))
