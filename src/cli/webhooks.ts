/** `webhooks`: lists, tests, enables and disables the webhooks of a project. */
import { Effect, Layer } from "effect"
import { Command } from "effect/cli"
import { Sender } from "../integrations/Sender.ts"
import { TestEvents } from "../integrations/TestEvents.ts"
import { type Webhook, WebhookControl } from "../integrations/WebhookControl.ts"
import { Audit } from "../platform/Audit.ts"
import { Notifier } from "../platform/outbox/Notifier.ts"
import { SecretBox } from "../platform/SecretBox.ts"
import { SecretKey } from "../platform/SecretKey.ts"
import * as Flags from "./Flags.ts"
import { onMigratedDatabase } from "./OnDatabase.ts"
import { answer, answerPage, cli, table } from "./Output.ts"

const onWebhooks = <A, E, R>(command: Effect.Effect<A, E, R>) =>
  command.pipe(Effect.provide(WebhookControl.layer.pipe(Layer.provide(Notifier.layerInline))), onMigratedDatabase)

const testEvents = TestEvents.layer.pipe(
  Layer.provide([Sender.layerOfSettings, Audit.layer, SecretBox.layer.pipe(Layer.provide(SecretKey.layer))])
)

const list = Command.make(
  "list",
  { json: Flags.json, project: Flags.project, ...Flags.rangeById },
  Effect.fn(function* ({ json, project, ...range }) {
    const webhooks = yield* WebhookControl
    const page = yield* webhooks.list(yield* Flags.projectId(project), range)
    const text = page.items.length === 0 ? "No webhooks" : table([head, ...page.items.map(row)])
    yield* answerPage(json, page, text, "--after")
  }, onWebhooks)
).pipe(
  Command.withDescription("List the webhooks of a project with their health"),
  Command.withExamples([{ command: `${cli} webhooks list --project demo` }])
)

const test = Command.make(
  "test",
  { json: Flags.json, project: Flags.project, installation: Flags.installation },
  Effect.fn(
    function* ({ installation, json, project }) {
      const events = yield* TestEvents
      const result = yield* events.send(yield* Flags.projectId(project), installation)
      const { durationMs, errorCode, status } = result
      yield* answer(json, result, `${status === null ? errorCode : `Status ${status}`} after ${durationMs} ms`)
    },
    (command) => command.pipe(Effect.provide(testEvents), onMigratedDatabase)
  )
).pipe(
  Command.withDescription("Send a signed webhook.test.v1 event to a webhook now, enabled or not, and show the answer"),
  Command.withExamples([{ command: `${cli} webhooks test --project demo --installation ins_shop` }])
)

const switched = (name: "enable" | "disable", description: string) =>
  Command.make(
    name,
    { json: Flags.json, project: Flags.project, installation: Flags.installation },
    Effect.fn(function* ({ installation, json, project }) {
      const webhooks = yield* WebhookControl
      const webhook = yield* webhooks[name](yield* Flags.projectId(project), installation)
      yield* answer(json, webhook, table([head, row(webhook)]))
    }, onWebhooks)
  ).pipe(
    Command.withDescription(description),
    Command.withExamples([{ command: `${cli} webhooks ${name} --project demo --installation ins_shop` }])
  )

export const webhooks = Command.make("webhooks").pipe(
  Command.withDescription("List, test, enable and disable the webhooks of a project"),
  Command.withSubcommands([
    list,
    test,
    switched("enable", "Enable a webhook; its endpoint is tried at once"),
    switched("disable", "Disable a webhook: its pending deliveries are dead-lettered")
  ])
)

const head = ["INSTALLATION", "ENABLED", "FAILURES", "LAST SUCCESS", "VERSION", "ENDPOINT"]

const row = (webhook: Webhook) => [
  webhook.installationId,
  webhook.enabled ? "yes" : `no (${webhook.disabledReason ?? "unknown"})`,
  String(webhook.consecutiveFailures),
  webhook.lastSuccessAt ?? "never",
  String(webhook.version),
  webhook.endpointUrl
]
