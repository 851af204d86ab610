/** Project files and a database for the tests of this folder. */
import { Context, DateTime, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { ProjectId } from "../../src/api/schema/Ids.ts"
import { makeClients } from "../../src/crm/Clients.ts"
import { makeDeals } from "../../src/crm/Deals.ts"
import { command } from "../../src/commands/Command.ts"
import { Notifier } from "../../src/outbox/Outbox.ts"
import { Pages } from "../../src/http/pages/Pages.ts"
import { SecretBox } from "../../src/secrets/SecretBox.ts"
import { exportProject } from "../../src/project/Export.ts"
import type { ProjectFile } from "../../src/project/ProjectFile.ts"
import { applyProject } from "../../src/project/Projects.ts"
import { secretBox } from "../support/SecretBox.ts"
import { TestDatabase } from "../support/TestDatabase.ts"

export type File = (typeof ProjectFile)["Encoded"]

const keyOf = (byte: number) => Buffer.alloc(32, byte).toString("base64")

export const services = Layer.merge(secretBox(keyOf(1)), TestDatabase.layer)

/** The commands of clients and deals, made once, so that concurrent ones are a group. */
export class Crm extends Context.Service<Crm>()("developer-api-service/test/project/Projects.support/Crm", {
  make: Effect.all({ clients: makeClients, deals: makeDeals })
}) {}

export const withCrm = Layer.effect(Crm, Crm.make).pipe(
  Layer.provide(Layer.mock(Pages)({})),
  Layer.provide(Notifier.layerInline),
  Layer.provideMerge(services)
)

/** Creates a command of a project under a key. */
export const commandOf = (projectId: string, key: string, payload: object = {}) =>
  command(ProjectId.make(projectId), { endpoint: { identifier: "test" }, headers: { "idempotency-key": key }, payload })

/** Runs an effect as if `SECRET_KEY` had been changed. */
export const underAnotherKey = Effect.provide(Layer.fresh(secretBox(keyOf(2))))

/** Advances the clock to a time that no test has used yet; returns it. */
export const anHourLater = Effect.andThen(TestClock.adjust("1 hour"), DateTime.nowAsDate)

/** Returns the text of a file for a project; the project's id is the name of the test. */
export const textOf = (
  id: string,
  file: Omit<File, "project"> & { readonly project?: Partial<File["project"]> } = {}
) => JSON.stringify({ ...file, project: { id, name: "Acme", ...file.project } })

export const apply = (...[id, file]: Parameters<typeof textOf>) => applyProject(textOf(id, file))

/** Returns the faults of a file; fails if the file is applied. */
export const faultsOf = (text: string) => Effect.map(Effect.flip(applyProject(text)), ({ faults }) => faults)

/** Returns the text of a project's export, and the numbers of its records. */
export const exported = Effect.fnUntraced(function* (projectId: ProjectId) {
  let text = ""
  const { records } = yield* exportProject(projectId, (piece) => Effect.sync(() => void (text += piece)))
  return { records, text }
})

const orders: Readonly<Record<string, ReadonlyArray<string>>> = {
  client_addresses: ["client_id", "position"],
  segment_clients: ["segment_id", "client_id"],
  templates: ["id", "version"]
}

/** Returns all rows of a project, ordered by id. */
export const rowsOf = Effect.fnUntraced(function* (table: string, projectId: string) {
  const sql = yield* SqlClient.SqlClient
  const order = orders[table] ?? ["id"]
  return yield* sql`
    SELECT * FROM ${sql(table)} WHERE project_id = ${projectId} ORDER BY ${sql.csv(order.map((column) => sql`${sql(column)}`))}`
})

/** Returns the opened config of a channel. */
export const configOf = Effect.fnUntraced(function* (projectId: string, channelId: string) {
  const sql = yield* SqlClient.SqlClient
  const box = yield* SecretBox
  const [row] = yield* sql<{ readonly config: Uint8Array }>`
    SELECT config FROM channels WHERE project_id = ${projectId} AND id = ${channelId}`
  const json = yield* box.open(["channel", projectId, channelId], row?.config ?? new Uint8Array())
  const config: unknown = JSON.parse(Redacted.value(json))
  return config
})

/** Returns a project's staged records and the evaluation of them. */
export const stagedOf = Effect.fnUntraced(function* (projectId: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.forEach(
    ["staged_batches", "staged_records", "staged_contacts"],
    // xmin shows whether a row was written again.
    (table) =>
      sql`SELECT xmin::text, * FROM ${sql(table)} AS staged WHERE project_id = ${projectId} ORDER BY staged::text`
  )
})

/** Returns the project's row without its revision, which counts the files. */
export const projectRow = Effect.fnUntraced(function* (projectId: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql`SELECT * FROM projects WHERE project_id = ${projectId}`
  if (row === undefined) return undefined
  const { revision: _, ...rest } = row
  return rest
})

/** Returns `count` clients whose ids sort in order, with shared members. */
export const manyClients = (
  count: number,
  shared: Partial<NonNullable<File["clients"]>[number]> = {}
): NonNullable<File["clients"]> =>
  Array.from({ length: count }, (_, index) => ({
    displayName: `Client ${index}`,
    ...shared,
    id: `cli_${String(index).padStart(6, "0")}`
  }))
