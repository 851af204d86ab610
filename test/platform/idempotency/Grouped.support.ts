/** Projects with a few records, and services whose commands come together. */
import { Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import fc from "fast-check"
import type { ClientPatch } from "../../../src/api/crm/Clients.ts"
import { ClientId, MemberId, OrganizationId, ProjectId } from "../../../src/api/Ids.ts"
import { Clients } from "../../../src/crm/Clients.ts"
import { type Command, command, type Outcome } from "../../../src/platform/idempotency/Idempotency.ts"
import { Pages } from "../../../src/platform/Pages.ts"
import { Projects } from "../../../src/project/Projects.ts"
import { secretBox } from "../../support/SecretBox.ts"
import { TestDatabase } from "../../support/TestDatabase.ts"

export const services = Clients.layer.pipe(
  Layer.provide(Layer.mock(Pages)({})),
  Layer.provideMerge(Layer.provide(Projects.layer, secretBox(Buffer.alloc(32, 7).toString("base64")))),
  Layer.provideMerge(TestDatabase.layer)
)

export const clientNames = ["ada", "bob", "cyd", "dan"]

/** A project with four clients, one of them archived. */
export const open = Effect.fnUntraced(function* (id: string, contactCapacity: number | null) {
  const { apply } = yield* Projects
  yield* apply(
    JSON.stringify({
      project: { id, name: id, contactCapacity },
      organizations: [
        { id: "acme", name: "Acme" },
        { id: "gone", name: "Gone", archived: true }
      ],
      members: [{ id: "anna", name: "Anna" }],
      clients: clientNames.map((name) => ({
        id: name,
        displayName: name,
        status: name === "dan" ? "archived" : "active"
      }))
    })
  )
  return ProjectId.make(id)
})

/** A command: a create, or a patch of a client that may not be there. */
export interface Step {
  readonly key: string
  readonly create?: string
  readonly patch?: readonly [client: string, changes: ClientPatch]
}

const patches: fc.Arbitrary<ClientPatch> = fc.oneof(
  fc.record({ firstName: fc.constantFrom("A", "B", null) }),
  fc.record({ tags: fc.constantFrom([], ["a"], ["a", "b"]) }),
  fc.record({ organizationId: fc.constantFrom(OrganizationId.make("acme"), OrganizationId.make("gone"), null) }),
  fc.record({ responsibleMemberId: fc.constantFrom(MemberId.make("anna"), MemberId.make("nobody")) }),
  fc.record({ status: fc.constantFrom("active", "archived") })
)

/** Steps under keys of their own. */
export const steps: fc.Arbitrary<ReadonlyArray<Step>> = fc
  .array(
    fc.oneof(
      fc.record({ create: fc.constantFrom("eve", "fay") }),
      fc.record({ patch: fc.tuple(fc.constantFrom(...clientNames, "nobody"), patches) })
    ),
    { minLength: 1, maxLength: 40 }
  )
  .map((some) => some.map((step, index) => ({ key: `step-${index}`, ...step })))

const commandOf = (projectId: ProjectId, { key, ...payload }: Step): Command =>
  command(projectId, { endpoint: { identifier: "test" }, headers: { "idempotency-key": key }, payload })

/** The result of a step without the generated id: a receipt, or the code of a problem. */
export const run = Effect.fnUntraced(function* (projectId: ProjectId, step: Step) {
  const clients = yield* Clients
  const { create, patch } = step
  const sent: Effect.Effect<Outcome, { readonly _tag: string }> =
    patch === undefined
      ? clients.create(commandOf(projectId, step), { displayName: create ?? "" })
      : clients.patch(commandOf(projectId, step), ClientId.make(patch[0]), patch[1])
  const exit = yield* Effect.exit(
    Effect.match(sent, {
      onFailure: ({ _tag }) => _tag,
      onSuccess: ({ changed, replayed, version }) => `${changed} ${version} ${replayed}`
    })
  )
  return Exit.isSuccess(exit) ? exit.value : String(exit.cause)
})

/** The members of a project's clients that the commands set. */
export const clientsOf = Effect.fnUntraced(function* (projectId: ProjectId) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql`
    SELECT CASE WHEN id LIKE 'cli\\_%' THEN '' ELSE id END AS id, display_name, first_name, tags, organization_id,
      responsible_member_id, status, version
    FROM clients WHERE project_id = ${projectId} ORDER BY 1, 2, 8`
})

export const activeOf = Effect.fnUntraced(function* (projectId: ProjectId) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly counted: number; readonly active: number; readonly capacity: number | null }>`
    SELECT active_clients AS counted, contact_capacity AS capacity,
      (SELECT count(*)::int FROM clients WHERE project_id = ${projectId} AND status = 'active') AS active
    FROM projects WHERE project_id = ${projectId}`
  return row
})
