/** Joins each endpoint of the Api with its handler and its success status. */
import { Effect } from "effect"
import * as HttpApi from "effect/http-api/HttpApi"
import { Api } from "../api/Api.ts"
import * as CampaignsHttp from "../campaigns/Http.ts"
import * as CrmHttp from "../crm/Http.ts"
import * as IntegrationsHttp from "../integrations/Http.ts"
import * as MessagingHttp from "../messaging/Http.ts"
import type { HandlersOf } from "../platform/requests/Handlers.ts"
import type { Operation } from "./RequestPath.ts"

type Handlers = { readonly [Group in keyof (typeof Api)["groups"]]: HandlersOf<Group> }

/** If a group is missing here, `operations` below does not compile. */
const handlers = Effect.all({
  clients: CrmHttp.clients,
  pipelines: CrmHttp.pipelines,
  deals: CrmHttp.deals,
  notes: CrmHttp.notes,
  tickets: CrmHttp.tickets,
  installations: IntegrationsHttp.installations,
  webhooks: IntegrationsHttp.webhooks,
  preview: IntegrationsHttp.preview,
  messaging: MessagingHttp.handlers,
  campaigns: CampaignsHttp.handlers
})

export const operations = Effect.map(handlers, (handlers: Handlers): ReadonlyArray<Operation> => {
  const byName = new Map<string, unknown>(Object.values(handlers).flatMap((group) => Object.entries(group)))
  const found: Array<Operation> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group, successes }) => {
      const handler = byName.get(endpoint.identifier)
      const [status] = successes.keys()
      if (!isHandler(handler) || status === undefined) {
        throw new Error(`The operation ${endpoint.identifier} has no handler or no success`)
      }
      found.push({ group, endpoint, handler, status })
    }
  })
  return found
})

/** Narrows a handler. `HandlersOf` has checked its type, but a walk over the endpoints loses the type. */
const isHandler = (u: unknown): u is Operation["handler"] => typeof u === "function"
