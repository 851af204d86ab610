/** Outbound webhooks: the endpoint, subscriptions and signing secrets of an installation (contract §10). */
import { DateTime, Effect, Option, type Redacted, Struct } from "effect"
import { SqlClient } from "effect/sql"
import type { DeliveryId, InstallationId, ProjectId, ReplayId } from "../api/schema/Ids.ts"
import type { ReplayCreate } from "../api/integrations/Replays.ts"
import type { WebhookConfigure, WebhookRotate } from "../api/integrations/Webhooks.ts"
import {
  DeliveryNotFound,
  InstallationNotFound,
  ReplayNotFound,
  WebhookNotFound,
  WebhookStateConflict
} from "../api/Problems.ts"
import { statement, withOwnTime } from "../sql/Database.ts"
import type { Command, Outcome } from "../commands/Command.ts"
import { mutate, Mutations } from "../commands/Mutations.ts"
import { newId } from "../platform/Ids.ts"
import { Notifier } from "../outbox/Outbox.ts"
import { SecretBox } from "../secrets/SecretBox.ts"
import { Settings } from "../platform/Settings.ts"
import { newSecret } from "../secrets/StandardWebhooks.ts"
import { urlFault, networksOf } from "./address/Addresses.ts"
import { configure, rotate } from "./ConfigureWebhook.ts"
import { retry } from "./delivery/Deliveries.ts"
import { details as replayDetails, replay } from "./Replays.ts"
import { currentSecret, noHeaders, sealHeaders, secretOwner, type StoredHeaders } from "./WebhookSecrets.ts"
import * as WebhookList from "./WebhookList.ts"
import { makeSendTest, resume, target } from "./TestEvents.ts"
import type { Delivery, DeliveryDetails } from "../api/integrations/Deliveries.ts"
import { lookupBy } from "../sql/Lookups.ts"
import { type PageQuery, Pages } from "../http/pages/Pages.ts"
import * as DeliveryList from "./delivery/DeliveryList.ts"

/** The outcome of a command. `returned` is the signing secret; null if the command is repeated. */
export type WebhookOutcome = Outcome<Redacted.Redacted>

export const makeWebhooks = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const mutations = yield* Mutations
  const box = yield* SecretBox
  const notifier = yield* Notifier
  const { webhooks } = yield* Settings
  const allowed = networksOf(webhooks.allowedNetworks)
  const sendTest = yield* makeSendTest

  const currentOf = Effect.fnUntraced(function* (projectId: ProjectId, id: InstallationId) {
    const [row] = yield* statement(currentSecret(sql, projectId, id))
    if (row === undefined) return none
    const opened = yield* Effect.option(box.open(secretOwner(projectId, id), row.secret))
    return { sealed: row.secret, opened, headers: { sealed: row.headers, names: row.names } }
  })

  /** Opens the current secret, with which `configure` answers, before the change: nothing is changed if no key opens it. */
  const configureOnce = Effect.fnUntraced(function* (command: Command, id: InstallationId, webhook: WebhookConfigure) {
    const { projectId } = command
    const made = yield* newSecret
    const fresh = yield* box.seal(secretOwner(projectId, id), made)
    const isNew = webhook.expectedVersion === null
    const current = isNew ? none : yield* currentOf(projectId, id)
    const { opened, sealed } = current
    const headers = yield* sealHeaders(box, projectId, id, current.headers, webhook.headers)
    const change = {
      ...webhook,
      fault: urlFault(webhook.endpointUrl, allowed),
      sealed: fresh,
      headers,
      current: sealed === null ? null : { sealed, opens: Option.isSome(opened), headers: current.headers }
    }
    const outcome = yield* mutate(mutations, command, configure(sql, projectId, id, change, yield* DateTime.nowAsDate))
    return withSecret(outcome, isNew ? made : Option.getOrElse(opened, () => made))
  })

  return {
    /** Creates or changes a webhook, and enables the webhook. The endpoint is tried at once. */
    configure: Effect.fnUntraced(
      function* (command: Command, id: InstallationId, webhook: WebhookConfigure) {
        const outcome = yield* Effect.retry(configureOnce(command, id, webhook), {
          while: ({ _tag }) => _tag === "SecretReplaced",
          times: 10
        })
        yield* notifier.changed(command.projectId, id)
        return outcome
      },
      // `SecretNotOpened`: SECRET_KEY is wrong. `SecretReplaced`: another command has replaced the secret at each try.
      Effect.catchTag(["SecretNotOpened", "SecretReplaced"], Effect.die)
    ),
    /** The old secret also signs for the time `secretOverlap`. */
    rotate: Effect.fnUntraced(function* (command: Command, id: InstallationId, { expectedVersion }: WebhookRotate) {
      const { projectId } = command
      const made = yield* newSecret
      const sealed = yield* box.seal(secretOwner(projectId, id), made)
      const change = { expectedVersion, sealed, overlap: webhooks.secretOverlap }
      const outcome = yield* mutate(mutations, command, rotate(sql, projectId, id, change, yield* DateTime.nowAsDate))
      yield* notifier.changed(projectId, id)
      return withSecret(outcome, made)
    }),
    retry: Effect.fnUntraced(function* (command: Command, id: InstallationId, deliveryId: DeliveryId) {
      const outcome = yield* mutate(
        mutations,
        command,
        retry(sql, command.projectId, id, deliveryId, yield* DateTime.nowAsDate)
      )
      yield* notifier.appended(command.projectId, [id])
      return outcome
    }),
    replay: Effect.fnUntraced(function* (command: Command, id: InstallationId, asked: ReplayCreate) {
      const replayId = yield* newId("rpl")
      return yield* mutate(mutations, command, replay(sql, id, replayId, asked, yield* DateTime.nowAsDate))
    }),
    test: Effect.fnUntraced(function* (projectId: ProjectId, id: InstallationId) {
      const [webhook] = yield* statement(target(sql, projectId, id))
      if (webhook === undefined) {
        const exists = yield* statement(WebhookList.installationExists(sql, projectId, id))
        return yield* exists ? new WebhookStateConflict() : new InstallationNotFound()
      }
      const { answer, isSuccess } = yield* sendTest(projectId, webhook)
      // The call may have used up the time of the request.
      if (isSuccess && (yield* withOwnTime(statement(resume(sql, projectId, webhook)))).length > 0) {
        yield* notifier.changed(projectId, id)
      }
      return answer
    })
  }
})

interface CurrentSecret {
  /** Null if there is no webhook. */
  readonly sealed: Uint8Array | null
  /** None if there is no webhook, or no key opens the secret. */
  readonly opened: Option.Option<Redacted.Redacted>
  readonly headers: StoredHeaders
}

const none: CurrentSecret = { sealed: null, opened: Option.none(), headers: noHeaders }

const withSecret = (outcome: Outcome<null>, secret: Redacted.Redacted): WebhookOutcome => ({
  ...outcome,
  returned: outcome.replayed ? null : secret
})

export const makeWebhookReads = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  const findWebhook = lookupBy(sql, WebhookList.details(sql))
  const findDelivery = lookupBy(sql, DeliveryList.details(sql))
  const findReplay = lookupBy(sql, replayDetails(sql))

  /** Called only after a read has found nothing, so most requests need one statement. */
  const requireInstallation = (projectId: ProjectId, id: InstallationId) =>
    Effect.flatMap(statement(WebhookList.installationExists(sql, projectId, id)), (exists) =>
      exists ? Effect.void : Effect.fail(new InstallationNotFound())
    )

  return {
    get: Effect.fnUntraced(function* (projectId: ProjectId, id: InstallationId) {
      const found = yield* findWebhook({ projectId, id })
      if (found !== undefined) return WebhookList.webhookOf(found)
      yield* requireInstallation(projectId, id)
      return yield* new WebhookNotFound()
    }),
    /** The newest deliveries come first. */
    listDeliveries: Effect.fnUntraced(function* (
      projectId: ProjectId,
      id: InstallationId,
      { eventType, status, ...query }: DeliveryList.PageFilter & PageQuery
    ) {
      const filters = { installationId: id, status, eventType: eventType ?? "all" }
      const { items, nextCursor } = yield* pages.readById(
        { projectId, operation: "listDeliveries", filters },
        query,
        (window) => statement(DeliveryList.page(sql, projectId, id, { status, eventType }, window))
      )
      if (items.length === 0) yield* requireInstallation(projectId, id)
      return { items: items.map(deliveryOf), nextCursor }
    }),
    getDelivery: Effect.fnUntraced(function* (projectId: ProjectId, id: InstallationId, deliveryId: DeliveryId) {
      const found = yield* findDelivery({ projectId, id: deliveryId })
      if (found?.installationId === id) return detailsOf(found)
      yield* requireInstallation(projectId, id)
      return yield* new DeliveryNotFound()
    }),
    getReplay: Effect.fnUntraced(function* (projectId: ProjectId, id: InstallationId, replayId: ReplayId) {
      const found = yield* findReplay({ projectId, id: replayId })
      if (found?.installationId === id) return Struct.omit(found, ["installationId"])
      yield* requireInstallation(projectId, id)
      return yield* new ReplayNotFound()
    })
  }
})

const deliveryOf = (delivery: DeliveryList.Delivery): Delivery => ({
  ...Struct.omit(delivery, ["installationId"]),
  status: delivery.status === "delivering" ? "pending" : delivery.status
})

const detailsOf = (found: DeliveryList.Details): DeliveryDetails => ({
  ...deliveryOf(Struct.omit(found, ["log", "deadCode", "eventTime", "eventData", "traceparent"])),
  event: { id: found.eventId, type: found.eventType, timestamp: found.eventTime, data: found.eventData },
  attemptLog: DeliveryList.attemptsOf(found)
})
