import { Data, Effect } from "effect"
import { Command } from "effect/cli"
import { pendingMax } from "../../api/integrations/WebhookHealth.ts"
import { Sender } from "../../integrations/endpoints/Sender.ts"
import { sendTestEvent } from "../../integrations/TestEvents.ts"
import { disableWebhook, enableWebhook, listWebhooks, showWebhook } from "../../integrations/WebhookControl.ts"
import type { Listed } from "../../integrations/endpoints/WebhookList.ts"
import { plural } from "../../platform/operators/Search.ts"
import { SecretBox } from "../../platform/secrets/SecretBox.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answer, answerPage, cli, confirm, isOnTerminal, table } from "../Output.ts"

class TestRefused extends Data.TaggedError("TestRefused")<{
  readonly status: number | null
  readonly errorCode: string | null
}> {
  override get message() {
    return this.status === null
      ? `The endpoint did not answer: ${this.errorCode}`
      : "The endpoint did not answer with 2xx"
  }
}

class NotConfirmed extends Data.TaggedError("NotConfirmed") {
  override get message() {
    return "Nothing was changed"
  }
}

const list = Command.make(
  "list",
  { json: Flags.json, project: Flags.project, ...Flags.rangeById },
  Effect.fn(function* ({ json, project, ...range }) {
    const page = yield* listWebhooks(yield* Flags.projectId(project), range)
    const text = page.items.length === 0 ? "No webhooks" : table([head, ...page.items.map(row)])
    yield* answerPage(json, { items: page.items.map(itemOf), next: page.next }, text, "--after")
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("List the webhooks of a project with their health"),
  Command.withExamples([{ command: `${cli} webhooks list --project demo` }])
)

const test = Command.make(
  "test",
  { json: Flags.json, project: Flags.project, installation: Flags.installation },
  Effect.fn(
    function* ({ installation, json, project }) {
      const result = yield* sendTestEvent(yield* Flags.projectId(project), installation)
      const { durationMs, errorCode, status } = result
      yield* answer(json, result, `${status === null ? errorCode : `Status ${status}`} after ${durationMs} ms`)
      if (status === null || status < 200 || status > 299) return yield* new TestRefused({ status, errorCode })
    },
    (command) => command.pipe(Effect.provide([Sender.layerOfSettings, SecretBox.layerOfSettings]), onMigratedDatabase)
  )
).pipe(
  Command.withDescription("Send a signed webhook.test.v1 event to a webhook now, enabled or not, and show the answer"),
  Command.withExamples([{ command: `${cli} webhooks test --project demo --installation ins_shop` }])
)

const enable = Command.make(
  "enable",
  { json: Flags.json, project: Flags.project, installation: Flags.installation },
  Effect.fn(function* ({ installation, json, project }) {
    const webhook = yield* enableWebhook(yield* Flags.projectId(project), installation)
    yield* answer(json, itemOf(webhook), table([head, row(webhook)]))
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("Enable a webhook; its endpoint is tried at once"),
  Command.withExamples([{ command: `${cli} webhooks enable --project demo --installation ins_shop` }])
)

const disable = Command.make(
  "disable",
  {
    json: Flags.json,
    project: Flags.project,
    installation: Flags.installation,
    yes: Flags.toggle("yes", "Do not ask for confirmation")
  },
  Effect.fn(function* ({ installation, json, project, yes }) {
    const projectId = yield* Flags.projectId(project)
    if (!yes && (yield* isOnTerminal)) {
      const { pending } = yield* showWebhook(projectId, installation)
      const number = `${pending < pendingMax ? "" : "at least "}${plural(pending, "pending delivery", "pending deliveries")}`
      if (!(yield* confirm(`Disable the webhook of ${installation}, and end its ${number}?`))) {
        return yield* new NotConfirmed()
      }
    }
    const { deadLettered, webhook } = yield* disableWebhook(projectId, installation)
    const text = `${table([head, row(webhook)])}\n\nPending deliveries that are dead-lettered: ${deadLettered}`
    yield* answer(json, { ...itemOf(webhook), deadLettered }, text)
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("Disable a webhook: its pending deliveries are dead-lettered"),
  Command.withExamples([{ command: `${cli} webhooks disable --project demo --installation ins_shop` }])
)

export const webhooks = Command.make("webhooks").pipe(
  Command.withDescription("List, test, enable and disable the webhooks of a project"),
  Command.withSubcommands([list, test, enable, disable])
)

const head = ["INSTALLATION", "ENABLED", "FAILURES", "LAST SUCCESS", "VERSION", "ENDPOINT"]

/** A webhook as `--json` shows it. */
const itemOf = (webhook: Listed) => ({
  installationId: webhook.installationId,
  endpointUrl: webhook.endpointUrl,
  eventTypes: webhook.eventTypes,
  enabled: webhook.enabled,
  disabledReason: webhook.disabledReason,
  consecutiveFailures: webhook.failures,
  lastSuccessAt: webhook.lastSuccessAt,
  version: webhook.version
})

const row = (webhook: Listed) => [
  webhook.installationId,
  webhook.enabled ? "yes" : `no (${webhook.disabledReason ?? "unknown"})`,
  String(webhook.failures),
  webhook.lastSuccessAt ?? "never",
  String(webhook.version),
  webhook.endpointUrl
]
