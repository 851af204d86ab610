/** The signing secrets of claims, opened. */
import { Effect, type Redacted } from "effect"
import type { SecretBox } from "../../platform/SecretBox.ts"
import { secretOwner } from "../Webhooks/Secrets.ts"
import type { Claim } from "./Claim.ts"

/** Opens what a claim is signed with. */
export type Secrets = (
  claim: Pick<Claim, "projectId" | "installationId" | "secrets">
) => Effect.Effect<ReadonlyArray<Redacted.Redacted>>

/** So many endpoints have their secrets remembered. */
const remembered = 10_000

/**
 * Opens secrets and remembers those that an endpoint had last: they are the same for its next delivery, unless they were
 * rotated. One that our key does not open is a fault of the operator's SECRET_KEY: nothing can be signed.
 */
export const make = (box: SecretBox["Service"]): Secrets => {
  const known = new Map<string, { readonly sealed: string; readonly opened: ReadonlyArray<Redacted.Redacted> }>()
  return ({ installationId, projectId, secrets }) => {
    // No id holds this character.
    const endpoint = `${projectId}\u0000${installationId}`
    const last = known.get(endpoint)
    if (last?.sealed === secrets) return Effect.succeed(last.opened)
    const owner = secretOwner(projectId, installationId)
    return Effect.forEach(secrets.split(" "), (sealed) => box.open(owner, Buffer.from(sealed, "base64"))).pipe(
      Effect.tap((opened) =>
        Effect.sync(() => {
          if (known.size >= remembered) known.clear()
          known.set(endpoint, { sealed: secrets, opened })
        })
      ),
      Effect.orDie
    )
  }
}
