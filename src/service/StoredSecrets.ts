/** The tables of stored secrets, and the check at start that the keys of this process belong to this database. */
import { Data, Effect, Layer } from "effect"
import { sealedHeaders, signingSecrets } from "../integrations/endpoints/WebhookSecrets.ts"
import { channelConfigs } from "../messaging/providers/Connectors.ts"
import { plural } from "../platform/Text.ts"
import { type SealedTable, unreadableAll } from "../secrets/SealedValues.ts"

export const sealedTables: ReadonlyArray<SealedTable> = [signingSecrets, sealedHeaders, channelConfigs]

class SecretKeyWrong extends Data.TaggedError("SecretKeyWrong")<{ readonly count: number }> {
  override get message() {
    return `SECRET_KEY does not open what is stored (${plural(this.count, "secret", "secrets")}): set the key that sealed it, or name it in SECRET_KEY_PREVIOUS`
  }
}

/**
 * Fails the start if secrets are stored and no key of this process opens any of them. So the process seals no secret with a
 * wrong key.
 */
export const layer = Layer.effectDiscard(
  Effect.gen(function* () {
    const count = yield* unreadableAll(sealedTables)
    if (count > 0) return yield* new SecretKeyWrong({ count })
  })
)
