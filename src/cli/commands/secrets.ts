import { Effect } from "effect"
import { Command } from "effect/cli"
import { recordServiceAction } from "../../operators/Audit.ts"
import { plural } from "../../platform/Text.ts"
import { reseal as resealValues } from "../../secrets/SealedValues.ts"
import { SecretBox } from "../../secrets/SecretBox.ts"
import { sealedTables } from "../../service/StoredSecrets.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answer, cli, withProgress } from "../Output.ts"

/** The text lists at most this number of the secrets that no key opens. */
const shown = 10

const reseal = Command.make(
  "reseal",
  { json: Flags.json },
  Effect.fn(function* ({ json }) {
    const { failed, resealed } = yield* resealValues(sealedTables).pipe(
      Effect.tap(({ failed, resealed }) =>
        recordServiceAction({
          action: "secrets.reseal",
          target: "secrets",
          detail: { resealed, failed: failed.length }
        })
      ),
      Effect.provide(SecretBox.layerOfSettings),
      onMigratedDatabase,
      withProgress("Sealing")
    )
    const text = [
      `Sealed ${plural(resealed, "secret", "secrets")} anew`,
      ...(failed.length === 0 ? [] : [`${plural(failed.length, "is", "are")} opened by no key that is set:`]),
      ...failed.slice(0, shown).map((name) => `  ${name}`),
      ...(failed.length > shown ? [`  and ${failed.length - shown} more`] : [])
    ]
    yield* answer(json, { resealed, failed: failed.length }, text.join("\n"))
  })
).pipe(
  Command.withDescription(
    "Seal anew with SECRET_KEY the secrets that keys of SECRET_KEY_PREVIOUS have sealed. Safe to repeat, and while the service runs"
  ),
  Command.withExamples([
    {
      command: `SECRET_KEY=$NEW SECRET_KEY_PREVIOUS=$OLD ${cli} secrets reseal`,
      description: "After every process seals with the new key"
    }
  ])
)

export const secrets = Command.make("secrets").pipe(
  Command.withDescription("Move stored secrets to another key"),
  Command.withSubcommands([reseal])
)
