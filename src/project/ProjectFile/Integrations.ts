/** The installations of a project file, with their staged records. */
import { Schema, Struct } from "effect"
import { text } from "../../api/schema/Fields.ts"
import { InstallationId } from "../../api/schema/Ids.ts"
import { EntityType, ExternalField } from "../../api/integrations/Preview.ts"
import { importFields } from "../../integrations/imports/ImportFields.ts"
import { isVisible, name, optional, positive } from "./Parts.ts"

const mapping = <const Field extends string>(fields: ReadonlyArray<Field>) =>
  Schema.optionalKey(Schema.Record(ExternalField, Schema.Literals([...fields, "restricted"])))

const ImportProfile = Schema.Struct({
  version: positive,
  mappings: Schema.Struct({
    contact: mapping(Struct.keys(importFields.contact)),
    organization: mapping(Struct.keys(importFields.organization)),
    lead: mapping(Struct.keys(importFields.lead)),
    deal: mapping(Struct.keys(importFields.deal)),
    task: mapping(Struct.keys(importFields.task)),
    activity: mapping(Struct.keys(importFields.activity)),
    note: mapping(Struct.keys(importFields.note))
  })
})

const StagedRecord = Schema.Struct({
  entityType: EntityType,
  externalId: text(1, 160),
  fields: Schema.Record(ExternalField, Schema.Unknown)
})

export const Installation = Schema.Struct({
  id: InstallationId.check(isVisible),
  name,
  status: optional(Schema.Literals(["active", "disabled"]), "active"),
  importProfile: optional(Schema.NullOr(ImportProfile)),
  stagedRecords: optional(Schema.Array(StagedRecord), [])
})
