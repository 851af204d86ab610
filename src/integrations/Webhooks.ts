/** Outbound webhooks: where an installation is told what happens, and the secrets that sign it (contract §10). */
import { Cache, Clock, Context, Duration, Effect, Exit, Layer, Option, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { DeliveryId, InstallationId, ProjectId } from "../api/Ids.ts"
import type { WebhookConfigure, WebhookRotate } from "../api/integrations/Webhooks.ts"
import {
  type IdempotencyKeyReused,
  type InstallationNotFound,
  type ServiceUnavailable,
  type VersionConflict,
  type WebhookReferenceInvalid,
  type WebhookStateConflict
} from "../api/Problems.ts"
import { statement } from "../platform/Database.ts"
import type { Command, Outcome } from "../platform/idempotency/Idempotency.ts"
import { mutate } from "../platform/idempotency/Mutate.ts"
import { Mutations } from "../platform/idempotency/Mutations.ts"
import { Notifier } from "../platform/outbox/Notifier.ts"
import { SecretBox } from "../platform/SecretBox.ts"
import { Settings } from "../platform/Settings.ts"
import { newSecret } from "../platform/StandardWebhooks.ts"
import { networksOf } from "./Addresses.ts"
import { unacceptable } from "./EndpointUrl.ts"
import { configure, rotate } from "./Webhooks/Repo.ts"
import { retry } from "./Webhooks/Retry.ts"
import { secretInForce, secretOwner } from "./Webhooks/Secrets.ts"

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

      /**
       * The secrets in force as they were last read, opened before anything is changed. The statement that configures
       * checks that it finds the same; one that was replaced meanwhile, or by another process, is read anew.
       */
      const held = yield* Cache.makeWith(
        Effect.fnUntraced(function* ({ id, projectId }: WebhookKey) {
          const sealed = yield* statement(secretInForce(sql, projectId, id))
          if (sealed === null) return none
          return { sealed, opened: yield* Effect.option(box.open(secretOwner(projectId, id), sealed)) }
        }),
        {
          capacity: 10_000,
          timeToLive: Exit.match({ onSuccess: () => Duration.infinity, onFailure: () => Duration.zero })
        }
      )

      const configureOnce = Effect.fnUntraced(function* (
        command: Command,
        id: InstallationId,
        webhook: WebhookConfigure
      ) {
        const { projectId } = command
        const key: WebhookKey = { projectId, id }
        const made = yield* newSecret
        const fresh = yield* box.seal(secretOwner(projectId, id), made)
        const isNew = webhook.expectedVersion === null
        const { opened, sealed } = isNew ? none : yield* Cache.get(held, key)
        const change = {
          ...webhook,
          fault: unacceptable(webhook.endpointUrl, allowed),
          sealed: fresh,
          held: sealed === null ? null : { sealed, opens: Option.isSome(opened) }
        }
        const outcome = yield* mutate(mutations, command, configure(sql, projectId, id, change, yield* now)).pipe(
          Effect.tapError(({ _tag }) => (_tag === "SecretReplaced" ? Cache.invalidate(held, key) : Effect.void))
        )
        if (isNew && !outcome.replayed) yield* Cache.set(held, key, { sealed: fresh, opened: Option.some(made) })
        return withSecret(outcome, isNew ? made : Option.getOrElse(opened, () => made))
      })

      return {
        configure: Effect.fnUntraced(
          function* (command, id, webhook) {
            const outcome = yield* Effect.retry(configureOnce(command, id, webhook), {
              while: ({ _tag }) => _tag === "SecretReplaced",
              times: 10
            })
            yield* notifier.changed(command.projectId, id)
            return outcome
          },
          // A fault of the operator's SECRET_KEY.
          Effect.catchTag(["SecretNotOpened", "SecretReplaced"], Effect.die)
        ),
        rotate: Effect.fnUntraced(function* (command, id, { expectedVersion }) {
          const { projectId } = command
          const made = yield* newSecret
          const sealed = yield* box.seal(secretOwner(projectId, id), made)
          const change = { expectedVersion, sealed, overlap: webhooks.secretOverlap }
          const outcome = yield* mutate(mutations, command, rotate(sql, projectId, id, change, yield* now))
          if (!outcome.replayed) yield* Cache.set(held, { projectId, id }, { sealed, opened: Option.some(made) })
          yield* notifier.changed(projectId, id)
          return withSecret(outcome, made)
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

interface WebhookKey {
  readonly projectId: ProjectId
  readonly id: InstallationId
}

/** The sealed secret in force, null where there is no webhook, and the secret where one of our keys opens it. */
interface Held {
  readonly sealed: Uint8Array | null
  readonly opened: Option.Option<Redacted.Redacted>
}

const none: Held = { sealed: null, opened: Option.none() }

/** Adds the signing secret to an outcome, unless it is a replay. */
const withSecret = (outcome: Outcome<null>, secret: Redacted.Redacted): WebhookOutcome => ({
  ...outcome,
  returned: outcome.replayed ? null : secret
})
