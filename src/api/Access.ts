/** The access that an operation requires. Every endpoint has one `Access` annotation. */
import { Context, Schema } from "effect"

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
>()("developer-api/api/Access") {}

/** Whether an operation can remove or end what no other operation restores. */
export const Destructive = Context.Reference<boolean>("developer-api/api/Destructive", { defaultValue: () => false })

/** Whether an operation can change what exists although it is a POST. */
export const Changing = Context.Reference<boolean>("developer-api/api/Changing", { defaultValue: () => false })
