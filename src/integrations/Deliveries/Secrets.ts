/** The signing secrets of claims, opened. */
import { Effect, Option, type Redacted } from "effect"
import type { SecretBox } from "../../platform/SecretBox.ts"
import { secretOwner } from "../WebhookSecrets.ts"
import type { Claim } from "./Claim.ts"

/** Opens the secrets that sign a delivery. */
export type Secrets = (
  claim: Pick<Claim, "projectId" | "installationId" | "secrets">
) => Effect.Effect<ReadonlyArray<Redacted.Redacted>>

/** Maximum number of endpoints whose secrets are cached. */
const remembered = 10_000

/**
 * Opens secrets and remembers those that an endpoint had last: they are the same for its next delivery, unless they were
 * rotated. A secret in force that no key opens is a fault of the operator's SECRET_KEY: nothing can be signed. An older one
 * in its overlap is left out then, as receivers have the one in force.
 */
export const make = (box: SecretBox["Service"]): Secrets => {
  const known = new Map<string, { readonly sealed: string; readonly opened: ReadonlyArray<Redacted.Redacted> }>()
  return ({ installationId, projectId, secrets }) => {
    // No id holds this character.
    const endpoint = `${projectId}\u0000${installationId}`
    const last = known.get(endpoint)
    if (last?.sealed === secrets) return Effect.succeed(last.opened)
    const owner = secretOwner(projectId, installationId)
    const open = (sealed: string) => box.open(owner, Buffer.from(sealed, "base64"))
    const [inForce = "", ...older] = secrets.split(" ")
    return Effect.all([open(inForce), ...older.map((sealed) => Effect.option(open(sealed)))]).pipe(
      Effect.map(([first, ...others]) => [first, ...others.flatMap(Option.toArray)]),
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
