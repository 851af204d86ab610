/** Faults between the records of a project file: ids that repeat, and references to records that nobody has. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Fault } from "../../platform/Faults.ts"
import type { ProjectFile } from "../ProjectFile.ts"

type Sql = SqlClient.SqlClient

/** The tables that references lead to, by the file's name of the part. */
const targets = ["members", "organizations"] as const
type Target = (typeof targets)[number]

interface Reference {
  readonly path: Fault["path"]
  readonly target: Target
  readonly id: string
}

const reference = (path: Fault["path"], target: Target, id: string | null | undefined): ReadonlyArray<Reference> =>
  id === undefined || id === null ? [] : [{ path, target, id }]

const referencesOf = ({ clients = [] }: ProjectFile): ReadonlyArray<Reference> =>
  clients.flatMap((client, index) => [
    ...reference(["clients", index, "organizationId"], "organizations", client.organizationId),
    ...reference(["clients", index, "responsibleMemberId"], "members", client.responsibleMemberId)
  ])

/** References to what neither the file nor the project has. */
export const unknownReferences = Effect.fnUntraced(function* (sql: Sql, file: ProjectFile) {
  const references = referencesOf(file)
  const known: Record<Target, Set<string>> = {
    members: new Set(file.members?.map(({ id }) => id)),
    organizations: new Set(file.organizations?.map(({ id }) => id))
  }
  for (const target of targets) {
    const ids = new Set(references.flatMap((to) => (to.target === target ? [to.id] : []))).difference(known[target])
    if (ids.size === 0) continue
    const rows = yield* sql<{ readonly id: string }>`
      SELECT id FROM ${sql(target)} WHERE project_id = ${file.project.id} AND id = ANY(${[...ids]}::text[])`
    for (const { id } of rows) known[target].add(id)
  }
  return references
    .filter(({ id, target }) => !known[target].has(id))
    .map(({ path, target }): Fault => ({ path, message: `names nothing in ${target}, here or in the project` }))
})

/** Records that repeat the id of an earlier one. */
export const repeatedIds = ({ clients, members, organizations }: ProjectFile): ReadonlyArray<Fault> =>
  Object.entries({ members, organizations, clients }).flatMap(([part, records = []]) => {
    const seen = new Map<string, number>()
    return records.flatMap(({ id }, index): ReadonlyArray<Fault> => {
      const first = seen.get(id)
      if (first !== undefined) return [{ path: [part, index, "id"], message: `repeats ${part}/${first}/id` }]
      seen.set(id, index)
      return []
    })
  })
