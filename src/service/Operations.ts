/** The operations of the Api: their handlers, and the middleware that a request passes before them. */
import { Layer } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../api/Api.ts"
import * as CampaignsHttp from "../campaigns/Http.ts"
import * as CrmHttp from "../crm/Http.ts"
import * as IntegrationsHttp from "../integrations/Http.ts"
import * as MessagingHttp from "../messaging/Http.ts"
import * as CredentialHttp from "../project/Credential.ts"
import * as Middleware from "../http/path/Middleware.ts"
import * as RequestShape from "../http/path/RequestShape.ts"

/** If a group is missing here, `layer` requires it. */
const handlers = Layer.mergeAll(
  CredentialHttp.handlers,
  CrmHttp.clients,
  CrmHttp.directory,
  CrmHttp.pipelines,
  CrmHttp.deals,
  CrmHttp.notes,
  CrmHttp.tickets,
  IntegrationsHttp.installations,
  IntegrationsHttp.webhooks,
  IntegrationsHttp.preview,
  MessagingHttp.handlers,
  CampaignsHttp.handlers
)

/** From the outermost to the innermost; `api/Api.ts` and `api/Requests.ts` have their order. */
const middleware = Layer.mergeAll(
  Middleware.operation,
  Middleware.authentication,
  RequestShape.shape,
  RequestShape.body
)

export const layer = HttpApiBuilder.layer(Api).pipe(Layer.provide(handlers), Layer.provide(middleware))
