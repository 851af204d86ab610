/** The segments, templates and campaigns of a project file. */
import { Schema } from "effect"
import { text } from "../../api/Fields.ts"
import { CampaignId, ClientId, SegmentId, TemplateId } from "../../api/Ids.ts"
import { name, optional, positive } from "./Parts.ts"

export const Segment = Schema.Struct({
  id: SegmentId,
  name,
  description: optional(Schema.NullOr(text(0, 1000))),
  clientIds: Schema.Array(ClientId)
})

/** One version of a template. Several versions share an id. */
export const Template = Schema.Struct({ id: TemplateId, version: positive, name, body: text(1, 4096) })

export const Campaign = Schema.Struct({ id: CampaignId, name })
