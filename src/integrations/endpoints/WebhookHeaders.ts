/** Seals the headers that a caller adds to the deliveries of a webhook. The values of headers may be secrets. */
import { Effect, Redacted, Schema } from "effect"
import type { InstallationId, ProjectId } from "../../api/schema/Ids.ts"
import { WebhookHeaders } from "../../api/integrations/WebhookHeaders.ts"
import { canonicalJson } from "../../commands/CanonicalJson.ts"
import type { SecretBox } from "../../secrets/SecretBox.ts"
import { sealedColumn } from "../../secrets/SealedValues.ts"

type Box = SecretBox["Service"]

const kind = "headers of webhook"
const ownerOf = (projectId: ProjectId, id: InstallationId) => [kind, projectId, id]
const decode = Schema.decodeSync(Schema.fromJsonString(WebhookHeaders))

/** Headers as they are stored. `sealed` is null if there are none. */
export interface StoredHeaders {
  readonly sealed: Uint8Array | null
  readonly names: ReadonlyArray<string>
}

export const noHeaders: StoredHeaders = { sealed: null, names: [] }

export const openHeaders = (box: Box, projectId: ProjectId, id: InstallationId, sealed: Uint8Array) =>
  Effect.map(box.open(ownerOf(projectId, id), sealed), (json) => Redacted.make(decode(Redacted.value(json))))

/** Returns the headers to store: those that are stored if `headers` are the same, or are absent. */
export const sealHeaders = Effect.fnUntraced(function* (
  box: Box,
  projectId: ProjectId,
  id: InstallationId,
  stored: StoredHeaders,
  headers: WebhookHeaders | undefined
) {
  if (headers === undefined) return stored
  const names = Object.keys(headers)
  if (names.length === 0) return noHeaders
  if (stored.sealed !== null) {
    // Headers that no key opens are replaced.
    const before = yield* Effect.option(openHeaders(box, projectId, id, stored.sealed))
    if (before._tag === "Some" && comparable(Redacted.value(before.value)) === comparable(headers)) return stored
  }
  return { sealed: yield* box.seal(ownerOf(projectId, id), Redacted.make(JSON.stringify(headers))), names }
})

/** Neither the order nor the case of names has a meaning. */
const comparable = (headers: WebhookHeaders) =>
  canonicalJson(
    Object.entries(headers)
      .map(([name, value]) => [name.toLowerCase(), value])
      .toSorted()
  )

export const sealedHeaders = sealedColumn(kind, { table: "webhooks", id: "installation_id", column: "headers" })
