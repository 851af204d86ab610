/** The secrets that are stored, and whether this process can open them. */
import { Data, Effect, Layer } from "effect"
import { signingSecrets } from "../integrations/Webhooks/Secrets.ts"
import { channelConfigs } from "../messaging/Connectors/Sealed.ts"
import { type SealedTable, unreadableAll } from "../platform/SealedValues.ts"

/** Every table of the service that holds sealed values. */
export const sealedTables: ReadonlyArray<SealedTable> = [signingSecrets, channelConfigs]

/** No key opens any of the stored secrets: the process was started with the key of another installation. */
export class SecretKeyWrong extends Data.TaggedError("SecretKeyWrong")<{ readonly count: number }> {
  override get message() {
    return `SECRET_KEY opens none of the ${this.count} secrets that are stored: set the key that sealed them, or name it in SECRET_KEY_PREVIOUS`
  }
}

/** Fails where secrets are stored and no key opens any of them. */
export const assertReadable = Effect.gen(function* () {
  const count = yield* unreadableAll(sealedTables)
  if (count > 0) return yield* new SecretKeyWrong({ count })
})

/** Stops the start of a process that can't open what is stored, before it serves and seals anything. */
export const layer = Layer.effectDiscard(assertReadable)
