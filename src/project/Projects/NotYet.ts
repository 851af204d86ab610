/** The parts of the project file that this version reads but can't apply. An entry goes when its part comes. */
import { Predicate } from "effect"
import type { Fault } from "../../platform/Faults.ts"
import type { ProjectFile } from "../ProjectFile.ts"

/** Paths in the file; `*` stands for every record. */
const notYet = [
  "project/defaultPipelineId",
  "pipelines",
  "loyaltyLevels",
  "stampOffers",
  "channels",
  "clients/*/marketingConsent",
  "clients/*/suppressed",
  "clients/*/mergedIntoClientId",
  "clients/*/addresses",
  "clients/*/loyalty",
  "deals",
  "tickets",
  "conversations",
  "segments",
  "templates",
  "campaigns",
  "installations",
  "tasks"
]

/** Whether a value asks for nothing: what a new record has without it. */
const isEmpty = (value: unknown) =>
  value === undefined || value === null || value === false || (Array.isArray(value) && value.length === 0)

const present = (value: unknown, pattern: ReadonlyArray<string>, path: Fault["path"]): ReadonlyArray<Fault["path"]> => {
  const [key, ...rest] = pattern
  if (key === undefined) return isEmpty(value) ? [] : [path]
  if (key === "*") {
    return Array.isArray(value) ? value.flatMap((record, index) => present(record, rest, [...path, index])) : []
  }
  return Predicate.hasProperty(value, key) ? present(value[key], rest, [...path, key]) : []
}

/** What the file asks for that can't be done. */
export const notYetFaults = (file: ProjectFile): ReadonlyArray<Fault> =>
  notYet.flatMap((pattern) =>
    present(file, pattern.split("/"), []).map((path) => ({ path, message: "this version can't apply this part yet" }))
  )
