/**
 * The endpoints that list what clients and deals name by their ids: members, organizations, and pipelines with their stages
 * (contract §7).
 */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, Examples } from "../Access.ts"
import { text } from "../schema/Fields.ts"
import { MemberId, OrganizationId, PipelineId, StageId } from "../schema/Ids.ts"
import { listOf, pageQuery } from "../Endpoints.ts"

export const Member = Schema.Struct({
  id: MemberId,
  name: text(1, 160).annotate({ description: "The name of the member: 1 to 160 characters." }),
  email: Schema.NullOr(Schema.String).annotate({ description: "The mail address; null if it is unknown." }),
  active: Schema.Boolean.annotate({
    description: "Whether the member works in the project. The tokens of an inactive member are refused."
  })
}).annotate({ identifier: "DeveloperMember" })
export type Member = typeof Member.Type

export const Organization = Schema.Struct({
  id: OrganizationId,
  name: text(1, 160).annotate({ description: "The name of the organization: 1 to 160 characters." }),
  archived: Schema.Boolean.annotate({
    description: "Whether the organization is archived: no client can be given to it then."
  })
}).annotate({ identifier: "DeveloperOrganization" })
export type Organization = typeof Organization.Type

const reading = { scope: "crm.clients.read", module: "crm", policy: "read" } as const

export class DirectoryGroup extends HttpApiGroup.make("directory")
  .add(
    HttpApiEndpoint.get("listMembers", "/v1/developer/crm/members", listOf(Member, pageQuery(512)))
      .annotate(Access, reading)
      .annotate(Examples, {
        answer: {
          items: [{ id: "mem_rosa", name: "Rosa Winter", email: "rosa@example.com", active: true }],
          nextCursor: null
        }
      })
      .annotate(OpenApi.Summary, "List the members")
      .annotate(
        OpenApi.Description,
        "Lists the project's members, ordered by id. A client or a deal names its responsible member by the id."
      ),
    HttpApiEndpoint.get("listOrganizations", "/v1/developer/crm/organizations", listOf(Organization, pageQuery(512)))
      .annotate(Access, reading)
      .annotate(Examples, {
        answer: { items: [{ id: "org_harbour", name: "Harbour Coffee", archived: false }], nextCursor: null }
      })
      .annotate(OpenApi.Summary, "List the organizations")
      .annotate(
        OpenApi.Description,
        "Lists the project's organizations, ordered by id. A client or a deal names its organization by the id."
      )
  )
  .annotate(OpenApi.Title, "CRM members and organizations")
  .annotate(OpenApi.Description, "What clients and deals name beside each other: members and organizations.") {}

export const Pipeline = Schema.Struct({
  id: PipelineId,
  name: text(1, 160).annotate({ description: "The name of the pipeline: 1 to 160 characters." }),
  isDefault: Schema.Boolean.annotate({
    description: "Whether this is the pipeline of a new deal that names no pipeline."
  }),
  stages: Schema.Array(
    Schema.Struct({
      id: StageId,
      name: text(1, 160).annotate({ description: "The name of the stage: 1 to 160 characters." })
    })
  ).annotate({ description: "The stages in their order. A new deal that names no stage is on the first." })
}).annotate({ identifier: "DeveloperPipeline" })
export type Pipeline = typeof Pipeline.Type

const example = {
  id: "pipe_sales",
  name: "Sales",
  isDefault: true,
  stages: [
    { id: "stage_new", name: "New" },
    { id: "stage_talking", name: "In talks" },
    { id: "stage_offer", name: "Offer sent" }
  ]
}

export class PipelinesGroup extends HttpApiGroup.make("pipelines")
  .add(
    HttpApiEndpoint.get("listPipelines", "/v1/developer/crm/pipelines", listOf(Pipeline, pageQuery(512)))
      .annotate(Access, { scope: "crm.deals.read", module: "crm", policy: "read" })
      .annotate(Examples, { answer: { items: [example], nextCursor: null } })
      .annotate(OpenApi.Summary, "List the pipelines")
      .annotate(
        OpenApi.Description,
        "Lists the project's pipelines, ordered by id, each with its stages. A deal names its pipeline and its stage by their ids."
      )
  )
  .annotate(OpenApi.Title, "CRM pipelines")
  .annotate(OpenApi.Description, "Pipelines, and the stages that deals move through.") {}
