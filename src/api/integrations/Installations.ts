/** The endpoint that lists installations: the integrations that are installed in a project. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, Examples } from "../Access.ts"
import { text, Version } from "../schema/Fields.ts"
import { InstallationId } from "../schema/Ids.ts"
import { listOf, pageQuery } from "../Endpoints.ts"

export const Installation = Schema.Struct({
  id: InstallationId,
  name: text(1, 160).annotate({ description: "The name of the installation: 1 to 160 characters." }),
  profileVersion: Schema.NullOr(Schema.Int).annotate({
    description: "The version of its import profile, from 1; null if it has no profile."
  }),
  webhook: Schema.NullOr(
    Schema.Struct({
      enabled: Schema.Boolean.annotate({ description: "Whether events are sent to its endpoint." }),
      version: Version
    })
  ).annotate({ description: "Its outbound webhook; null if none is configured." })
}).annotate({ identifier: "DeveloperInstallation" })
export type Installation = typeof Installation.Type

export class InstallationsGroup extends HttpApiGroup.make("installations")
  .add(
    HttpApiEndpoint.get("listInstallations", "/v1/developer/integrations", listOf(Installation, pageQuery(512)))
      .annotate(Access, { scope: "integrations.operations.read", module: "integrations", policy: "read" })
      .annotate(Examples, {
        answer: {
          items: [{ id: "ins_till", name: "Till", profileVersion: 3, webhook: { enabled: true, version: 2 } }],
          nextCursor: null
        }
      })
      .annotate(OpenApi.Summary, "List the installations")
      .annotate(
        OpenApi.Description,
        "Lists the installations of the project, ordered by id, each with its webhook if it has one."
      )
  )
  .annotate(OpenApi.Title, "Integrations")
  .annotate(OpenApi.Description, "The integrations that are installed in the project.") {}
