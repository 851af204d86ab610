/** Finds members of a project file by patterns of their paths. */
import { Predicate } from "effect"
import type { Fault } from "../../api/Faults.ts"
import type { ProjectFile } from "../ProjectFile.ts"

interface Found {
  readonly path: Fault["path"]
  readonly value: unknown
}

/** Returns the values at a path such as `project/name`; `*` matches every item of a list. */
export const find = (file: ProjectFile, pattern: string): ReadonlyArray<Found> => walk(file, pattern.split("/"), [])

const walk = (value: unknown, pattern: ReadonlyArray<string>, path: Fault["path"]): ReadonlyArray<Found> => {
  const [key, ...rest] = pattern
  if (key === undefined) return [{ path, value }]
  if (key === "*") return Array.isArray(value) ? value.flatMap((item, index) => walk(item, rest, [...path, index])) : []
  return Predicate.hasProperty(value, key) ? walk(value[key], rest, [...path, key]) : []
}
