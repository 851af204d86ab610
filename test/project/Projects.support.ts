/** Project files and a database for the tests of this folder. */
import { DateTime, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import type { ProjectFile } from "../../src/project/ProjectFile.ts"
import { Projects } from "../../src/project/Projects.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

export type File = (typeof ProjectFile)["Encoded"]

export const services = Projects.layer.pipe(Layer.provideMerge(TestDatabase.layer))

/** Moves the clock to a time that no test before has seen. */
export const anHourLater = Effect.andThen(TestClock.adjust("1 hour"), DateTime.nowAsDate)

/** The text of a file for a project, its tests' name being its id. */
export const textOf = (
  id: string,
  file: Omit<File, "project"> & { readonly project?: Partial<File["project"]> } = {}
) => JSON.stringify({ ...file, project: { id, name: "Acme", ...file.project } })

export const apply = Effect.fnUntraced(function* (...[id, file]: Parameters<typeof textOf>) {
  const projects = yield* Projects
  return yield* projects.apply(textOf(id, file))
})

/** The faults of a file that must not be applied. */
export const faultsOf = Effect.fnUntraced(function* (text: string) {
  const projects = yield* Projects
  return (yield* Effect.flip(projects.apply(text))).faults
})

const tables = [
  "members",
  "organizations",
  "pipelines",
  "stages",
  "loyalty_levels",
  "stamp_offers",
  "clients",
  "deals",
  "tickets",
  "tasks",
  "installations"
] as const
type Table = (typeof tables)[number]

/** All rows of a project, ordered by id. */
export const rowsOf = Effect.fnUntraced(function* (table: Table, projectId: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql`SELECT * FROM ${sql(table)} WHERE project_id = ${projectId} ORDER BY id`
})

/** All that a project has staged, and what was made of it. */
export const stagedOf = Effect.fnUntraced(function* (projectId: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.forEach(
    ["staged_batches", "staged_records", "staged_contacts"],
    // With what tells one writing of a row from the next.
    (table) =>
      sql`SELECT xmin::text, * FROM ${sql(table)} AS staged WHERE project_id = ${projectId} ORDER BY staged::text`
  )
})

/** Everything that the project file says of a project, as it is stored. */
export const stateOf = Effect.fnUntraced(function* (projectId: string) {
  return [
    yield* projectRow(projectId),
    ...(yield* Effect.forEach(tables, (table) => rowsOf(table, projectId))),
    ...(yield* stagedOf(projectId))
  ]
})

/** The project's row but for its revision, which counts the files. */
export const projectRow = Effect.fnUntraced(function* (projectId: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql`SELECT * FROM projects WHERE project_id = ${projectId}`
  if (row === undefined) return undefined
  const { revision: _, ...rest } = row
  return rest
})

/** `count` clients with ids that sort in order, and what else they share. */
export const manyClients = (
  count: number,
  shared: Partial<NonNullable<File["clients"]>[number]> = {}
): NonNullable<File["clients"]> =>
  Array.from({ length: count }, (_, index) => ({
    displayName: `Client ${index}`,
    ...shared,
    id: `cli_${String(index).padStart(6, "0")}`
  }))
