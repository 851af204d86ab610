/** Finds faults that concern several records of a project file: repeated ids and missing references. */
import { Effect, Predicate, Record } from "effect"
import type { SqlClient as Sql } from "effect/sql/SqlClient"
import type { Fault } from "../../api/schema/Faults.ts"
import type { ProjectFile } from "../ProjectFile.ts"
import { parts } from "../Parts.ts"
import type { Pipelines } from "./Deals.ts"

/**
 * What a file must not repeat: the values at a path, in the whole file or in one list. If `members` is given, only these members
 * are compared. The id of a stage is unique in the project, not only on its pipeline. Several clients may share an address.
 */
const unique: ReadonlyArray<readonly [pattern: string, within: "file" | "list", members?: Array<string>]> = [
  ["pipelines/*/stages/*/id", "file"],
  ...Record.keys(parts).flatMap((name) => (parts[name].key === undefined ? [[`${name}/*/id`, "file"] as const] : [])),
  ["clients/*/externalId", "file"],
  ["deals/*/externalId", "file"],
  ["clients/*/addresses/*", "list", ["channelId", "address"]],
  ["segments/*/clientIds/*", "list"],
  ["templates/*", "list", ["id", "version"]]
]

/** The parts with referenced records, except pipelines, which `Deals.ts` reads. */
const referenced = ["members", "organizations", "loyaltyLevels", "stampOffers", "channels", "clients", "deals"] as const

type Target = (typeof referenced)[number] | "pipelines" | "stages"

const references: ReadonlyArray<readonly [pattern: string, target: Target]> = [
  ["project/defaultPipelineId", "pipelines"],
  ["clients/*/organizationId", "organizations"],
  ["clients/*/responsibleMemberId", "members"],
  ["clients/*/loyalty/levelId", "loyaltyLevels"],
  ["clients/*/loyalty/readyStampOfferIds/*", "stampOffers"],
  ["clients/*/addresses/*/channelId", "channels"],
  ["clients/*/mergedIntoClientId", "clients"],
  ["deals/*/clientId", "clients"],
  ["deals/*/organizationId", "organizations"],
  ["deals/*/pipelineId", "pipelines"],
  ["deals/*/stageId", "stages"],
  ["deals/*/responsibleMemberId", "members"],
  ["tickets/*/clientId", "clients"],
  ["conversations/*/clientId", "clients"],
  ["conversations/*/channelId", "channels"],
  ["segments/*/clientIds/*", "clients"],
  ["tasks/*/dealId", "deals"],
  ["tasks/*/clientId", "clients"],
  ["tasks/*/assigneeId", "members"]
]

interface Found {
  readonly path: Fault["path"]
  readonly value: unknown
}

/** Returns the values at a path such as `project/name`; `*` matches every item of a list. */
const find = (file: ProjectFile, pattern: string): ReadonlyArray<Found> => walk(file, pattern.split("/"), [])

const walk = (value: unknown, pattern: ReadonlyArray<string>, path: Fault["path"]): ReadonlyArray<Found> => {
  const [key, ...rest] = pattern
  if (key === undefined) return [{ path, value }]
  if (key === "*") return Array.isArray(value) ? value.flatMap((item, index) => walk(item, rest, [...path, index])) : []
  return Predicate.hasProperty(value, key) ? walk(value[key], rest, [...path, key]) : []
}

/** Returns the ids or references at a path. Absent and null members reference nothing. */
const idsAt = (file: ProjectFile, pattern: string) =>
  find(file, pattern).flatMap(({ path, value }) => (Predicate.isString(value) ? [{ path, id: value }] : []))

/** Lists references to records that are neither in the file nor in the project. */
export const unknownReferences = Effect.fnUntraced(function* (sql: Sql, file: ProjectFile, pipelines: Pipelines) {
  const all = references.flatMap(([pattern, target]) =>
    idsAt(file, pattern).map((reference) => ({ ...reference, target }))
  )
  const known = new Map<Target, Set<string>>([
    ["pipelines", new Set(pipelines.after.keys())],
    ["stages", new Set(pipelines.stages)]
  ])
  for (const target of referenced) {
    const here = new Set(idsAt(file, `${target}/*/id`).map(({ id }) => id))
    const others = new Set(all.flatMap((to) => (to.target === target ? [to.id] : []))).difference(here)
    const rows =
      others.size === 0
        ? []
        : yield* sql<{ readonly id: string }>`
            SELECT id FROM ${sql(parts[target].table)} WHERE project_id = ${file.project.id} AND id = ANY(${[...others]}::text[])`
    known.set(target, here.union(new Set(rows.map(({ id }) => id))))
  }
  return all
    .filter(({ id, target }) => known.get(target)?.has(id) !== true)
    .map(({ path, target }): Fault => ({ path, message: `names nothing in ${target}, here or in the project` }))
})

/** Lists the external ids that a record of the project keeps, which another record of the file would repeat. */
export const takenExternalIds = Effect.fnUntraced(function* (sql: Sql, file: ProjectFile) {
  const faults: Array<Fault> = []
  for (const part of ["clients", "deals"] as const) {
    const given = idsAt(file, `${part}/*/externalId`)
    if (given.length === 0) continue
    const changing = (file[part] ?? []).flatMap(({ externalId, id }) => (externalId === undefined ? [] : [id]))
    const rows = yield* sql<{ readonly id: string; readonly externalId: string }>`
      SELECT id, external_id AS "externalId" FROM ${sql(part)}
      WHERE project_id = ${file.project.id} AND external_id = ANY(${given.map(({ id }) => id)}::text[])
        AND id <> ALL(${changing}::text[])`
    const holders = new Map(rows.map(({ externalId, id }) => [externalId, id]))
    for (const { id, path } of given) {
      const holder = holders.get(id)
      if (holder !== undefined) faults.push({ path, message: `repeats that of ${holder} in the project` })
    }
  }
  return faults
})

export const faultsWithin = (file: ProjectFile): ReadonlyArray<Fault> => [...repeats(file), ...mergedIntoSelf(file)]

const repeats = (file: ProjectFile) =>
  unique.flatMap(([pattern, within, members]) => {
    const seen = new Map<string, Fault["path"]>()
    return find(file, pattern).flatMap(({ path, value }): ReadonlyArray<Fault> => {
      if (value === null) return []
      const key = JSON.stringify([within === "list" ? path.slice(0, -1) : [], value], members)
      const first = seen.get(key)
      if (first !== undefined) return [{ path, message: `repeats ${first.map(String).join("/")}` }]
      seen.set(key, path)
      return []
    })
  })

const mergedIntoSelf = ({ clients = [] }: ProjectFile): ReadonlyArray<Fault> =>
  clients.flatMap(({ id, mergedIntoClientId }, index) =>
    id === mergedIntoClientId
      ? [{ path: ["clients", index, "mergedIntoClientId"], message: "must be another client than this one" }]
      : []
  )
