/** Outbound webhooks: the endpoint, subscriptions and signing secrets of an installation (contract §10). */
import { DateTime, Effect, Option, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { DeliveryId, InstallationId } from "../api/schema/Ids.ts"
import type { WebhookConfigure, WebhookRotate } from "../api/integrations/Webhooks.ts"
import { statement } from "../platform/database/Database.ts"
import type { Command, Outcome } from "../platform/mutations/Idempotency.ts"
import { mutate } from "../platform/mutations/Mutate.ts"
import { Mutations } from "../platform/mutations/Mutations.ts"
import { Notifier } from "../platform/outbox/Notifier.ts"
import { SecretBox } from "../platform/secrets/SecretBox.ts"
import { Settings } from "../platform/Settings.ts"
import { newSecret } from "../platform/secrets/StandardWebhooks.ts"
import { networksOf } from "./endpoints/Addresses.ts"
import { endpointFault } from "./endpoints/EndpointUrl.ts"
import { configure, rotate } from "./Webhooks/Repo.ts"
import { retry } from "./deliveries/Deliveries/Retry.ts"
import { currentSecret, secretOwner } from "./endpoints/WebhookSecrets.ts"

/** The outcome of a command, with the current signing secret unless the outcome is a replay. */
export type WebhookOutcome = Outcome<Redacted.Redacted>

/** Makes the commands of webhooks. */
export const makeWebhooks = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  const box = yield* SecretBox
  const notifier = yield* Notifier
  const { webhooks } = yield* Settings
  const allowed = networksOf(webhooks.allowedNetworks)

  return {
    /**
     * Creates or changes a webhook, and enables the webhook. The endpoint is tried at once. A webhook is changed only if its secret
     * can be opened, so the secret is read before the change.
     */
    configure: Effect.fnUntraced(
      function* (command: Command, id: InstallationId, webhook: WebhookConfigure) {
        const { projectId } = command
        const owner = secretOwner(projectId, id)
        const made = yield* newSecret
        const current = webhook.expectedVersion === null ? null : yield* statement(currentSecret(sql, projectId, id))
        const opened = current === null ? Option.some(made) : yield* Effect.option(box.open(owner, current.sealed))
        const change = {
          ...webhook,
          fault: endpointFault(webhook.endpointUrl, allowed),
          sealed: yield* box.seal(owner, made),
          seenVersion: current?.version ?? null,
          opens: Option.isSome(opened)
        }
        const configured = configure(sql, projectId, id, change, yield* DateTime.nowAsDate)
        const outcome = yield* mutate(mutations, command, configured)
        yield* notifier.changed(projectId, id)
        return withSecret(
          outcome,
          Option.getOrElse(opened, () => made)
        )
      },
      // SECRET_KEY is wrong.
      Effect.catchTag("SecretNotOpened", Effect.die)
    ),
    /** Makes a new signing secret. The old secret also signs until the overlap ends. */
    rotate: Effect.fnUntraced(function* (command: Command, id: InstallationId, { expectedVersion }: WebhookRotate) {
      const { projectId } = command
      const made = yield* newSecret
      const sealed = yield* box.seal(secretOwner(projectId, id), made)
      const change = { expectedVersion, sealed, overlap: webhooks.secretOverlap }
      const outcome = yield* mutate(mutations, command, rotate(sql, projectId, id, change, yield* DateTime.nowAsDate))
      yield* notifier.changed(projectId, id)
      return withSecret(outcome, made)
    }),
    /** Returns a dead delivery to the queue, at the start of its retry schedule. */
    retry: Effect.fnUntraced(function* (command: Command, id: InstallationId, deliveryId: DeliveryId) {
      const outcome = yield* mutate(
        mutations,
        command,
        retry(sql, command.projectId, id, deliveryId, yield* DateTime.nowAsDate)
      )
      yield* notifier.appended(command.projectId, [id])
      return outcome
    })
  }
})

const withSecret = (outcome: Outcome<null>, secret: Redacted.Redacted): WebhookOutcome => ({
  ...outcome,
  returned: outcome.replayed ? null : secret
})
