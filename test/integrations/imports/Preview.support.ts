/** Project files with staged records, and their previews. */
import { Effect, Layer } from "effect"
import { InstallationId, ProjectId } from "../../../src/api/schema/Ids.ts"
import { Preview } from "../../../src/integrations/imports/Preview.ts"
import { applyProject } from "../../../src/project/Projects.ts"
import { secretBox } from "../../support/SecretBox.ts"
import { TestDatabase } from "../../support/TestDatabase.ts"
import type { Parts } from "../../support/TestServer.ts"

/** A key for applying files, which have no secrets. */
export const key = secretBox(Buffer.alloc(32, 1).toString("base64"))

export const services = Layer.mergeAll(key, Preview.layer).pipe(Layer.provideMerge(TestDatabase.layer))

/** An installation of a file; the default id is `ins`. */
export type Installation = Partial<NonNullable<Parts["installations"]>[number]>
export type Profile = NonNullable<Installation["importProfile"]>
type StagedRecord = NonNullable<Installation["stagedRecords"]>[number]
type Client = NonNullable<Parts["clients"]>[number]

/** Applies a file with an installation and optional clients. */
export const apply = Effect.fnUntraced(function* (
  projectId: string,
  installation: Installation,
  parts: { readonly clients?: ReadonlyArray<Partial<Client> & { readonly id: string }> } = {}
) {
  const clients = parts.clients?.map((client) => ({ displayName: "Someone", ...client }))
  const installations = [{ id: "ins", name: "Shop", ...installation }]
  return yield* applyProject(JSON.stringify({ project: { id: projectId, name: "Acme" }, clients, installations }))
})

export const preview = Effect.fnUntraced(function* (projectId: string, installationId = "ins") {
  const { preview } = yield* Preview
  return yield* preview(ProjectId.make(projectId), InstallationId.make(installationId))
})

/** A typical profile, which maps external names to own fields. */
export const usual = {
  version: 1,
  mappings: {
    contact: {
      name: "displayName",
      first: "firstName",
      mail: "email",
      tel: "phone",
      labels: "tags",
      secret: "restricted"
    },
    organization: { name: "name" },
    deal: { title: "title", amount: "amountMinor", currency: "currency", close: "expectedCloseDate" }
  }
} as const satisfies Profile

export const contact = (externalId: string, fields: StagedRecord["fields"] = {}): StagedRecord => ({
  entityType: "contact",
  externalId,
  fields
})
