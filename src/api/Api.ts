/** The developer API v1: its groups, and the annotations that all of them share. */
import { HttpApi, OpenApi } from "effect/http-api"
import { Authentication, ProblemHandling, RequestShape } from "./Requests.ts"
import { CampaignsGroup } from "./campaigns/Campaigns.ts"
import { ClientsGroup } from "./crm/Clients.ts"
import { CredentialGroup } from "./Credential.ts"
import { DirectoryGroup, PipelinesGroup } from "./crm/Directory.ts"
import { DealsGroup } from "./crm/Deals.ts"
import { NotesGroup } from "./crm/Notes.ts"
import { TicketsGroup } from "./crm/Tickets.ts"
import { InstallationsGroup, PreviewGroup } from "./integrations/Installations.ts"
import { WebhooksGroup } from "./integrations/Webhooks.ts"
import { MessagingGroup } from "./messaging/Messaging.ts"

/** `http/path/RequestShape.ts` gathers all faults, in bounded time, once decoding has found the first. */
const strict = { onExcessProperty: "error" } as const

export class Api extends HttpApi.make("developer-api")
  .add(
    ClientsGroup,
    DirectoryGroup,
    PipelinesGroup,
    DealsGroup,
    NotesGroup,
    TicketsGroup,
    InstallationsGroup,
    WebhooksGroup,
    PreviewGroup,
    MessagingGroup,
    CampaignsGroup,
    CredentialGroup
  )
  .prefix("/api")
  .middleware(RequestShape)
  .middleware(Authentication)
  .middleware(ProblemHandling)
  .annotate(HttpApi.QueryParseOptions, strict)
  .annotate(HttpApi.PayloadParseOptions, strict)
  .annotate(OpenApi.Title, "Developer API")
  .annotate(OpenApi.Version, "v1")
  .annotate(OpenApi.Description, "The project-scoped developer API: CRM, messaging, campaigns and integrations.") {}

type Reflected = Parameters<Parameters<typeof HttpApi.reflect>[1]["onEndpoint"]>[0]

/** All endpoints, in the order of their groups. */
export const endpoints = (): ReadonlyArray<Reflected> => {
  const all: Array<Reflected> = []
  HttpApi.reflect(Api, { onGroup: () => {}, onEndpoint: (endpoint) => void all.push(endpoint) })
  return all
}
