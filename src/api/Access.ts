/**
 * What an operation requires: its access and its rate limit, of the bearer token that every operation takes (contract §3). Every
 * endpoint has an `Access` annotation.
 */
import { Context, Record, Schema } from "effect"
import type { KeyId, MemberId, ProjectId } from "./schema/Ids.ts"

/** The access scopes (contract, "Operations"). An operation requires one, or none. */
export const scopes = [
  "crm.clients.read",
  "crm.clients.write",
  "crm.deals.read",
  "crm.deals.write",
  "crm.tickets.ratings.write",
  "messaging.read",
  "messaging.write",
  "campaigns.read",
  "campaigns.write",
  "integrations.webhooks.write",
  "integrations.operations.read"
] as const
export const Scope = Schema.Literals(scopes)
export type Scope = typeof Scope.Type

export const modules = ["crm", "messaging", "campaigns", "integrations", "tickets"] as const
export const Module = Schema.Literals(modules)
export type Module = typeof Module.Type

/** The rate limit policies, each with a token bucket per project. */
export const policies = ["read", "write", "messages"] as const
export type Policy = (typeof policies)[number]

/** Without a scope and a module (null), any valid token of an entitled project has access. */
export class Access extends Context.Service<
  Access,
  { readonly scope: Scope | null; readonly module: Module | null; readonly policy: Policy }
>()("developer-api-service/api/Access") {}

/** Whether an operation can remove or end what no other operation restores. */
export const Destructive = Context.Reference<boolean>("developer-api-service/api/Access/Destructive", {
  defaultValue: () => false
})

/** Whether an operation can change what exists although it is a POST. */
export const Changing = Context.Reference<boolean>("developer-api-service/api/Access/Changing", {
  defaultValue: () => false
})

/** The size of a token bucket. The bucket is refilled evenly over the window. */
export interface RateLimit {
  readonly limit: number
  readonly windowSeconds: number
}

/** The token bucket of a project for one policy. */
export interface Bucket extends RateLimit {
  readonly policy: Policy
  readonly key: string
  /** The value of the header `ratelimit-policy`. */
  readonly description: string
}

/** The limits of a project that has no limits of its own (contract §4). */
export const defaultRateLimits: Record<Policy, RateLimit> = {
  read: { limit: 1200, windowSeconds: 60 },
  write: { limit: 300, windowSeconds: 60 },
  messages: { limit: 60, windowSeconds: 60 }
}

/** The caller: the API key of a request, with the settings of the key's project. */
export class Principal extends Context.Service<
  Principal,
  {
    readonly projectId: ProjectId
    readonly keyId: KeyId
    readonly scopes: ReadonlyArray<Scope>
    readonly memberId: MemberId | null
    /** The IANA time zone of the project. The value is up to a second old, like all data of a key. */
    readonly timeZone: string
    readonly buckets: Readonly<Record<Policy, Bucket>>
  }
>()("developer-api-service/api/Access/Principal") {}

/** An operation's examples in the OpenAPI document. `requests` has several bodies, by name. */
export class Examples extends Context.Service<
  Examples,
  { readonly request?: unknown; readonly requests?: Readonly<Record<string, unknown>>; readonly answer: unknown }
>()("developer-api-service/api/Access/Examples") {}

/** Adds named examples to each media type of a body. Viewers show `examples`, but not `example`. */
export const exemplify = (content: object | undefined, examples: Readonly<Record<string, unknown>>): void => {
  for (const media of Object.values(content ?? {})) {
    Object.assign(media, { examples: Record.map(examples, (value) => ({ value })) })
  }
}
