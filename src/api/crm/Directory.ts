/** The endpoints that list members and organizations, which clients and deals name by their ids (contract §7). */
import { Schema } from "effect"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import { Access } from "../Access.ts"
import { Examples } from "../schema/Examples.ts"
import { text } from "../schema/Fields.ts"
import { MemberId, OrganizationId } from "../schema/Ids.ts"
import { page, pageQuery } from "../Page.ts"
import { CursorInvalid } from "../Problems.ts"

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
    HttpApiEndpoint.get("listMembers", "/v1/developer/crm/members", {
      query: pageQuery(512),
      success: page(Member),
      error: [CursorInvalid]
    })
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
    HttpApiEndpoint.get("listOrganizations", "/v1/developer/crm/organizations", {
      query: pageQuery(512),
      success: page(Organization),
      error: [CursorInvalid]
    })
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
