/** The form of a sample: see `Samples.ts`. */
import type { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Module, Policy, Scope } from "../../src/api/Access.ts"

/** A reference to another record: its place in the request, an id of another project, and the expected answer. */
export interface Reference {
  readonly at: readonly ["path" | "body", string]
  readonly foreign: string
  readonly code: string
  /** The default is 404. */
  readonly status?: 400
  /** Returns the member of the body in which the id is, if the member is not the id itself. */
  readonly holding?: (id: string) => unknown
  /** The form of an id. The default is any text of 1 to 160 characters. */
  readonly form?: "uuid"
}

/** Returns an id of a reference's form that no project has. */
export const missingOf = ({ form }: Reference) =>
  form === "uuid" ? "00000000-0000-4000-8000-000000000000" : "xxx_nothing"

/** A valid request to an operation, with what the contract requires for it. */
export interface Sample {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE"
  /** Relative to `/api`, `{name}` for a parameter. */
  readonly path: string
  readonly status: 200 | 201
  /** Null: any token of the project has access. */
  readonly scope: Scope | null
  readonly module: Module | null
  readonly policy: Policy
  /** Ids of existing records. */
  readonly params?: Readonly<Record<string, string>>
  /** Every query parameter with a valid value; null if only an answer can give one. */
  readonly query?: Readonly<Record<string, string | null>>
  /** Every member of the body, with valid values. */
  readonly body?: Readonly<Record<string, unknown>>
  /** Members that a body must have. */
  readonly required?: ReadonlyArray<string>
  /** The member that selects the variant of the body. Without it no other fault can be reported. */
  readonly discriminator?: string
  /** The form of the idempotency key (contract §5): of clients and deals, or of everything else. */
  readonly key?: "record" | "any"
  /** The kind of its receipt, if it differs from the usual one: with a signing secret, without a version, of a message or a batch. */
  readonly receipt?: "secret" | "unversioned" | "message" | "batch"
  readonly references?: ReadonlyArray<Reference>
  /** Other codes with which the operation can refuse. */
  readonly refusals?: ReadonlyArray<string>
  /** Restores records that the request needs and a project file cannot create, or that an earlier request consumed. */
  readonly restore?: Restore
}

export type Restore = (sql: SqlClient.SqlClient, projectId: string) => Effect.Effect<void>
