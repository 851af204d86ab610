/**
 * What a record refers to, and external ids, by which others refer to it: in a project, at most one client and at most one deal has a
 * given id (contract §7). The references are checked inside the statement that writes the record.
 *
 * An upsert looks up the record with the external id, and is then a patch of it or a create, under the same idempotency key. Both
 * check in their statements that the look-up still holds. If it does not, the upsert begins again.
 */
import { columnName } from "../sql/Columns.ts"
import { ClientNotFound, DealNotFound, ExternalIdTaken, type ServiceUnavailable } from "../api/Problems.ts"
import type { Command, Refusal } from "../commands/Command.ts"
import { Data, Duration, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { ProjectId } from "../api/schema/Ids.ts"
import { lookupBy } from "../sql/Lookups.ts"

const tables = {
  clientId: "clients",
  organizationId: "organizations",
  responsibleMemberId: "members",
  dealId: "deals"
} as const

/**
 * Returns an SQL expression for each reference: the name of the reference (as in `members`) if the referenced record does not
 * exist in the project, otherwise null. Referenced records are not locked: if a client is erased meanwhile, a foreign key refuses the
 * reference, and the statement runs again (`Database.ts`). The values of `row` must come from the request, not from a locked row. A
 * locked row can be newer than the snapshot of the statement. A record that it references may then not be in the snapshot, and would
 * seem missing.
 */
export const missingReferences = (row: string, members: ReadonlyArray<keyof typeof tables>): string =>
  members
    .map((member) => {
      const id = `${row}.${columnName(member)}`
      return `CASE WHEN ${id} IS NOT NULL AND NOT EXISTS (
        SELECT FROM ${tables[member]} AS referred WHERE referred.project_id = ${row}.project_id AND referred.id = ${id}
      ) THEN '${member}' END`
    })
    .join(", ")

type Table = "clients" | "deals"

/** Returns the name under which a command takes an external id (`takes` of `Kind`): none for null and for an absent member. */
export const takenBy = (externalId: string | null | undefined): ReadonlyArray<string> =>
  externalId === undefined || externalId === null ? [] : [`external id ${externalId}`]

/**
 * Returns a query of the record that has the external id `given`, for a command in `row`. A statement that began before another gave the
 * id to a record does not see that. Then the unique index refuses its change, and the command runs again.
 */
export const holderOf = (table: Table, row: string, given: string): string => `
  SELECT id FROM ${table} WHERE project_id = ${row}.project_id AND external_id = ${given} LIMIT 1`

export const external_id_taken =
  (record: "client" | "deal") =>
  ({ faults: [resourceId = ""] }: Refusal) =>
    new ExternalIdTaken({ detail: ExternalIdTaken.detail(record, resourceId), resourceId })

/** The patched record no longer has the external id that the upsert has looked up. No caller gets this problem. */
export class OtherRecord extends Data.TaggedError("OtherRecord") {}

/** What the patch of an upsert expects: the external id of the record. Every other patch expects none. */
export interface Expected {
  readonly expectedExternalId?: string
}

export const expectedArgs = { expectedExternalId: "text" } as const

/** Returns the branch of a CASE with the failure of a patch whose record, in `row`, has another external id. */
export const otherRecord = (row: string): string => `
  WHEN "expectedExternalId" IS NOT NULL AND ${row}.old_external_id IS DISTINCT FROM "expectedExternalId" THEN 'other_record'`

export const otherRecordProblem = { other_record: () => new OtherRecord() }

/** Makes a function that returns the id of the record with an external id, if there is one. */
export const makeFind = (sql: SqlClient.SqlClient, table: Table) => {
  const find = lookupBy<{ readonly id: string }>(
    sql,
    (key) => sql`
      SELECT found.id FROM ${key} LEFT JOIN LATERAL (
        SELECT id FROM ${sql(table)} WHERE project_id = key.project_id AND external_id = key.id LIMIT 1
      ) AS found ON true
      WHERE ordinal + 0 = ordinal
      ORDER BY ordinal`
  )
  return (projectId: ProjectId, externalId: string) =>
    Effect.map(find({ projectId, id: externalId }), (found) => found?.id)
}

/** The problems of a command after which an upsert begins again: the record with the external id has changed since the look-up. */
type Outdated = OtherRecord | ExternalIdTaken | ClientNotFound | DealNotFound

const isOutdated = (error: unknown): error is Outdated =>
  [OtherRecord, ExternalIdTaken, ClientNotFound, DealNotFound].some((Class) => error instanceof Class)

/** The pause before an upsert begins again. Another writer may hold the external id until then. */
const pause = Duration.millis(25)

/** Runs an upsert. It ends at the latest when the request has no time left, because each statement then fails. */
export const upsert = <A, E, E2>(parts: {
  readonly find: Effect.Effect<string | undefined, ServiceUnavailable>
  readonly command: Command
  readonly create: (command: Command) => Effect.Effect<A, E | Outdated>
  readonly patch: (command: Command, id: string) => Effect.Effect<A, E2 | Outdated>
}): Effect.Effect<A, E | E2 | ServiceUnavailable> => {
  const { command, create, find, patch } = parts
  // No version matches an upsert that may only create.
  const change: Command = command.isCreateOnly === true ? { ...command, ifMatch: [] } : command
  const run = Effect.flatMap(find, (id): Effect.Effect<A, E | E2 | Outdated> =>
    id === undefined ? create(command) : patch(change, id)
  )
  return Effect.catch(run, (error) => (isOutdated(error) ? Effect.delay(upsert(parts), pause) : Effect.fail(error)))
}

/** Makes the problems of a command defects that it can have only as part of an upsert. */
export const without = <Other>(...classes: ReadonlyArray<new (...args: never) => Other>) => {
  const isOther = (error: unknown): error is Other => classes.some((Class) => error instanceof Class)
  return <A, E>(command: Effect.Effect<A, E | Other>): Effect.Effect<A, E> =>
    Effect.catch(command, (error) => (isOther(error) ? Effect.die(error) : Effect.fail(error)))
}
