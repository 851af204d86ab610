/** Outbound webhooks: where an installation is told what happens, and the secrets that sign it (contract §10). */
import { Clock, Context, Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { DeliveryId, InstallationId } from "../api/Ids.ts"
import type { WebhookConfigure, WebhookRotate } from "../api/integrations/Webhooks.ts"
import {
  type IdempotencyKeyReused,
  type InstallationNotFound,
  type ServiceUnavailable,
  type VersionConflict,
  type WebhookReferenceInvalid,
  type WebhookStateConflict
} from "../api/Problems.ts"
import { type Command, mutate, type Outcome } from "../platform/idempotency/Idempotency.ts"
import { Mutations } from "../platform/idempotency/Mutations.ts"
import { Notifier } from "../platform/outbox/Notifier.ts"
import { SecretBox } from "../platform/SecretBox.ts"
import { Settings } from "../platform/Settings.ts"
import { newSecret } from "../platform/StandardWebhooks.ts"
import { networksOf } from "./Addresses.ts"
import { unacceptable } from "./EndpointUrl.ts"
import { configure, rotate } from "./Webhooks/Repo.ts"
import { retry } from "./Webhooks/Retry.ts"
import { secretOwner } from "./Webhooks/Secrets.ts"

/** The outcome of a command; with the signing secret in force where this is its first answer. */
export type WebhookOutcome = Outcome<Redacted.Redacted>

export class Webhooks extends Context.Service<
  Webhooks,
  {
    /** Creates the installation's webhook, or changes it; enables it again, and has its endpoint tried at once. */
    readonly configure: (
      command: Command,
      id: InstallationId,
      webhook: WebhookConfigure
    ) => Effect.Effect<
      WebhookOutcome,
      IdempotencyKeyReused | InstallationNotFound | VersionConflict | WebhookReferenceInvalid | ServiceUnavailable
    >

    /** Makes a new signing secret; the old one signs, too, until its overlap ends. */
    readonly rotate: (
      command: Command,
      id: InstallationId,
      webhook: WebhookRotate
    ) => Effect.Effect<
      WebhookOutcome,
      IdempotencyKeyReused | InstallationNotFound | VersionConflict | WebhookStateConflict | ServiceUnavailable
    >

    /** Returns a dead delivery to the queue, its retry schedule anew. */
    readonly retry: (
      command: Command,
      id: InstallationId,
      deliveryId: DeliveryId
    ) => Effect.Effect<
      Outcome<unknown>,
      IdempotencyKeyReused | InstallationNotFound | WebhookReferenceInvalid | WebhookStateConflict | ServiceUnavailable
    >
  }
>()("developer-api/integrations/Webhooks") {
  static readonly layer = Layer.effect(
    Webhooks,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const mutations = yield* Mutations
      const box = yield* SecretBox
      const notifier = yield* Notifier
      const { webhooks } = yield* Settings
      const allowed = networksOf(webhooks.allowedNetworks)
      const now = Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis))

      /** A secret that no key of ours opens is a fault of the operator's `SECRET_KEY`. */
      const opened = Effect.fnUntraced(function* (
        { projectId }: Command,
        id: InstallationId,
        { returned, ...outcome }: Outcome<Uint8Array>
      ): Effect.fn.Return<WebhookOutcome> {
        if (returned === null) return { ...outcome, returned }
        return { ...outcome, returned: yield* Effect.orDie(box.open(secretOwner(projectId, id), returned)) }
      })

      return {
        configure: Effect.fnUntraced(function* (command, id, webhook) {
          const { projectId } = command
          const sealed = yield* box.seal(secretOwner(projectId, id), yield* newSecret)
          const change = { ...webhook, fault: unacceptable(webhook.endpointUrl, allowed), sealed }
          const outcome = yield* mutate<VersionConflict | InstallationNotFound | WebhookReferenceInvalid, Uint8Array>(
            mutations,
            command,
            configure(sql, projectId, id, change, yield* now)
          )
          yield* notifier.changed(projectId, id)
          return yield* opened(command, id, outcome)
        }),
        rotate: Effect.fnUntraced(function* (command, id, { expectedVersion }) {
          const { projectId } = command
          const sealed = yield* box.seal(secretOwner(projectId, id), yield* newSecret)
          const change = { expectedVersion, sealed, overlap: webhooks.secretOverlap }
          const outcome = yield* mutate<VersionConflict | InstallationNotFound | WebhookStateConflict, Uint8Array>(
            mutations,
            command,
            rotate(sql, projectId, id, change, yield* now)
          )
          yield* notifier.changed(projectId, id)
          return yield* opened(command, id, outcome)
        }),
        retry: Effect.fnUntraced(function* (command, id, deliveryId) {
          const outcome = yield* mutate(mutations, command, retry(sql, command.projectId, id, deliveryId, yield* now))
          yield* notifier.appended(command.projectId, [id])
          return outcome
        })
      }
    })
  )
}
