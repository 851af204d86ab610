/**
 * Installations, the integrations that are installed in a project: their list, and what an import of their staged records would
 * change (contract §11).
 */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, Examples } from "../Access.ts"
import { text, Version } from "../schema/Fields.ts"
import { InstallationId } from "../schema/Ids.ts"
import { listOf, pageQuery } from "../Endpoints.ts"
import { InstallationNotFound, InstallationNotReady } from "../Problems.ts"

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

/** The types of records that an installation can stage for an import. */
export const entityTypes = ["contact", "organization", "lead", "deal", "task", "activity", "note"] as const
export const EntityType = Schema.Literals(entityTypes)
export type EntityType = typeof EntityType.Type

export const ExternalField = text(1, 100)

const count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0, { expected: "an integer from 0" }))
const countOf = (what: string) => count.annotate({ description: `The number of ${what}, from 0.` })

export const UnsupportedReason = Schema.Literals(["not_mapped", "unsupported_type", "restricted"])
export type UnsupportedReason = typeof UnsupportedReason.Type

export const UnsupportedField = Schema.Struct({
  entityType: EntityType.annotate({ description: "The type of the staged records that have the field." }),
  externalField: ExternalField.annotate({
    description: "The name of the field in the external system: 1 to 100 characters."
  }),
  reason: UnsupportedReason.annotate({
    description:
      "Why the field is not imported. `not_mapped`: the profile has no mapping for it; `restricted`: the profile excludes it; `unsupported_type`: at " +
      "least one of its values does not fit the field that it is mapped to."
  }),
  count: Schema.Int.check(Schema.isGreaterThanOrEqualTo(1, { expected: "an integer from 1" })).annotate({
    description: "The number of staged records whose value of the field is not imported, from 1."
  })
})
export type UnsupportedField = typeof UnsupportedField.Type

export const ImportPreview = Schema.Struct({
  counts: Schema.Struct({
    contact: countOf("staged contacts"),
    organization: countOf("staged organizations"),
    lead: countOf("staged leads"),
    deal: countOf("staged deals"),
    task: countOf("staged tasks"),
    activity: countOf("staged activities"),
    note: countOf("staged notes")
  }).annotate({ description: "The number of staged records of each entity type." }),
  duplicateCount: countOf("records that repeat an earlier one of the batch"),
  unsupportedFields: Schema.Array(UnsupportedField).annotate({
    description: "The fields that would not be imported, each with the reason."
  }),
  estimatedChanges: Schema.Struct({
    create: countOf("records that would be created"),
    update: countOf("records that would update an existing one"),
    skip: countOf("records that would change nothing")
  }).annotate({
    description: "The changes that an import would make; their sum is the sum of `counts`."
  }),
  profileVersion: count.annotate({ description: "The version of the import profile that was applied." }),
  fingerprint: Schema.String.check(Schema.isPattern(/^[a-f0-9]{64}$/)).annotate({
    description: "Identifies the batch and its profile: a SHA-256 as 64 hexadecimal digits."
  })
}).annotate({ identifier: "DeveloperIntegrationPreview" })
export type ImportPreview = typeof ImportPreview.Type

const example: ImportPreview = {
  counts: { contact: 3, organization: 1, lead: 0, deal: 1, task: 0, activity: 0, note: 0 },
  duplicateCount: 1,
  unsupportedFields: [
    { entityType: "contact", externalField: "birthday", reason: "restricted", count: 3 },
    { entityType: "contact", externalField: "shoeSize", reason: "not_mapped", count: 1 },
    { entityType: "deal", externalField: "total", reason: "unsupported_type", count: 1 }
  ],
  estimatedChanges: { create: 3, update: 1, skip: 1 },
  profileVersion: 2,
  fingerprint: "9f2c6b0d1e8a47f3b5c09d7e6a1f42380c5be97d14a6f83b2d70e9c5481a6f3d"
}

export class PreviewGroup extends HttpApiGroup.make("preview")
  .add(
    HttpApiEndpoint.post("previewImport", "/v1/developer/integrations/:installationId/preview", {
      params: { installationId: InstallationId },
      success: ImportPreview,
      error: [InstallationNotFound, InstallationNotReady]
    })
      .annotate(Access, { scope: "integrations.operations.read", module: "integrations", policy: "read" })
      .annotate(Examples, { answer: example })
      .annotate(OpenApi.Summary, "Preview the import of staged records")
      .annotate(
        OpenApi.Description,
        "Previews the import of the installation's staged records and changes nothing. A record is a duplicate " +
          "if an earlier record of the batch has the same entity type and external id. A contact is also a duplicate if an " +
          "earlier contact has the same email (in any letter case) or phone. Duplicates would be skipped. A contact matches the " +
          "oldest client with the same external id, else the same email, else the same phone. It would update that client if a " +
          "mapped field differs, and be skipped otherwise. Phones and emails are compared in one normal form: without spaces, " +
          "and phones as E.164. All other records would be created. Values that do " +
          "not fit their field are ignored. If several fields are mapped to one, the first by name with a value " +
          "that fits is used. `fingerprint` identifies the batch: it is the SHA-256 of the canonical JSON (RFC 8785) of " +
          "`{installationId, profileVersion, records}`. Each record is `{entityType, externalId, fields}`, and the records are " +
          "sorted by their canonical form."
      )
  )
  .annotate(OpenApi.Title, "Integration import preview")
  .annotate(OpenApi.Description, "The preview of an import of staged records.") {}
