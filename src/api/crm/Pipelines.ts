/** The endpoint that lists pipelines with their stages (contract §7). */
import { Schema } from "effect"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as OpenApi from "effect/http-api/OpenApi"
import { Access } from "../Access.ts"
import { Examples } from "../schema/Examples.ts"
import { text } from "../schema/Fields.ts"
import { PipelineId, StageId } from "../schema/Ids.ts"
import { page, pageQuery } from "../Page.ts"
import { CursorInvalid } from "../Problems.ts"

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
    HttpApiEndpoint.get("listPipelines", "/v1/developer/crm/pipelines", {
      query: pageQuery(512),
      success: page(Pipeline),
      error: [CursorInvalid]
    })
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
