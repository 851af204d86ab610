/** The campaigns' part of a project file. */
import { Schema } from "effect"
import { text } from "../../api/Fields.ts"
import { ClientId } from "../../api/Ids.ts"
import { id, name, optional, positive } from "./Parts.ts"

export const Segment = Schema.Struct({
  id,
  name,
  description: optional(Schema.NullOr(text(0, 1000))),
  clientIds: Schema.Array(ClientId)
})

/** One version of a template; several may share an id. */
export const Template = Schema.Struct({ id, version: positive, name, body: text(1, 4096) })

export const Campaign = Schema.Struct({ id, name })
