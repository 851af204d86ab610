/** A good request to each operation, and what the specification says of it (sections 4 and 5): the walk's table. */
import { Context, Effect, Layer } from "effect"
import type { Module, Policy, Scope } from "../../src/api/Access.ts"
import { type Parts, type Seeded, TestServer } from "../support/TestServer.ts"

/** A reference to another record: where it stands in the request, an id that another project has, and the answer. */
export interface Reference {
  readonly at: readonly ["path" | "body", string]
  readonly foreign: string
  readonly code: string
}

export interface Sample {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE"
  /** Relative to `/api`, `{name}` for a parameter. */
  readonly path: string
  readonly status: 200 | 201
  readonly scope: Scope
  readonly module: Module
  readonly policy: Policy
  /** Ids that the project has. */
  readonly params?: Readonly<Record<string, string>>
  /** Every query parameter with a good value; null: there is none before an answer gave one. */
  readonly query?: Readonly<Record<string, string | null>>
  /** Every member of the body, with good values. */
  readonly body?: Readonly<Record<string, unknown>>
  /** Members that a body must have. */
  readonly required?: ReadonlyArray<string>
  /** The form of the idempotency key (specification 4.1): of clients and deals, or of everything else. */
  readonly key?: "record" | "printable"
  readonly references?: ReadonlyArray<Reference>
}

/** What the samples refer to. */
const fixtures: Parts = {
  members: [{ id: "mem_own", name: "Own" }],
  organizations: [{ id: "org_own", name: "Own" }],
  clients: [
    { id: "cli_own", displayName: "Own", email: "own@example.com" },
    { id: "cli_other", displayName: "Other" }
  ]
}

/** The records of another project, under ids that the first one doesn't have. */
const foreign: Parts = {
  members: [{ id: "mem_foreign", name: "Foreign" }],
  organizations: [{ id: "org_foreign", name: "Foreign" }],
  clients: [{ id: "cli_foreign", displayName: "Foreign" }]
}

const client = {
  displayName: "Ada Lovelace",
  firstName: "Ada",
  lastName: "Lovelace",
  email: "ada@example.com",
  phone: "+442071838750",
  tags: ["newsletter", "vip"],
  externalId: "crm-1815"
}

/** By the names that the HttpApi gives them. An operation that is missing here fails the walk. */
export const samples: Readonly<Record<string, Sample>> = {
  listClients: {
    method: "GET",
    path: "/v1/developer/crm/clients",
    status: 200,
    scope: "crm.clients.read",
    module: "crm",
    policy: "read",
    query: { status: "active", limit: "10", cursor: null }
  },
  createClient: {
    method: "POST",
    path: "/v1/developer/crm/clients",
    status: 201,
    scope: "crm.clients.write",
    module: "crm",
    policy: "write",
    body: client,
    required: ["displayName"],
    key: "record"
  },
  getClient: {
    method: "GET",
    path: "/v1/developer/crm/clients/{clientId}",
    status: 200,
    scope: "crm.clients.read",
    module: "crm",
    policy: "read",
    params: { clientId: "cli_own" },
    references: [{ at: ["path", "clientId"], foreign: "cli_foreign", code: "client_not_found" }]
  },
  patchClient: {
    method: "PATCH",
    path: "/v1/developer/crm/clients/{clientId}",
    status: 200,
    scope: "crm.clients.write",
    module: "crm",
    policy: "write",
    params: { clientId: "cli_own" },
    body: { ...client, organizationId: "org_own", responsibleMemberId: "mem_own", status: "active" },
    required: [],
    key: "record",
    references: [
      { at: ["path", "clientId"], foreign: "cli_foreign", code: "client_not_found" },
      { at: ["body", "responsibleMemberId"], foreign: "mem_foreign", code: "member_not_found" },
      { at: ["body", "organizationId"], foreign: "org_foreign", code: "organization_not_found" }
    ]
  }
}

/** The projects that the walk calls on. */
export class World extends Context.Service<
  World,
  {
    /** Has everything that the samples refer to. */
    readonly own: Seeded
    /** Seeds a project like `own`, but for some of it. */
    readonly seed: (parts?: Parts) => Effect.Effect<Seeded>
  }
>()("developer-api/test/World") {
  static readonly layer = Layer.effect(
    World,
    Effect.gen(function* () {
      const server = yield* TestServer
      const seed = (parts?: Parts) => server.seed({ ...fixtures, ...parts })
      yield* server.seed(foreign)
      return { own: yield* seed(), seed }
    })
  ).pipe(Layer.provideMerge(TestServer.layer()))
}
