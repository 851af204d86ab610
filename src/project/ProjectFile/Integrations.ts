/** The integrations' part of a project file: installations, and what they have staged for import. */
import { Schema } from "effect"
import { text } from "../../api/Fields.ts"
import { id, name, optional, positive } from "./Parts.ts"

const dealFields = ["title", "amountMinor", "currency", "expectedCloseDate"] as const

/** The own fields that an import profile can map an external field to, by entity type (contract §12). */
export const mappableFields = {
  contact: ["displayName", "firstName", "lastName", "email", "phone", "tags"],
  organization: ["name"],
  lead: dealFields,
  deal: dealFields,
  task: ["title", "dueAt"],
  activity: ["title", "at"],
  note: ["body"]
} as const

const ExternalField = text(1, 100)

const mapping = <const Field extends string>(fields: ReadonlyArray<Field>) =>
  Schema.optionalKey(Schema.Record(ExternalField, Schema.Literals([...fields, "restricted"])))

const ImportProfile = Schema.Struct({
  version: positive,
  mappings: Schema.Struct({
    contact: mapping(mappableFields.contact),
    organization: mapping(mappableFields.organization),
    lead: mapping(mappableFields.lead),
    deal: mapping(mappableFields.deal),
    task: mapping(mappableFields.task),
    activity: mapping(mappableFields.activity),
    note: mapping(mappableFields.note)
  })
})

const StagedRecord = Schema.Struct({
  entityType: Schema.Literals(["contact", "organization", "lead", "deal", "task", "activity", "note"]),
  externalId: text(1, 160),
  fields: Schema.Record(ExternalField, Schema.Unknown)
})

export const Installation = Schema.Struct({
  id,
  name,
  status: optional(Schema.Literals(["active", "disabled"]), "active"),
  importProfile: optional(Schema.NullOr(ImportProfile)),
  stagedRecords: optional(Schema.Array(StagedRecord), [])
})
