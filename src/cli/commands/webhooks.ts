import { Effect } from "effect"
import { Command } from "effect/cli"
import { itemOf } from "../../integrations/endpoints/WebhookList.ts"
import { listWebhooks } from "../../integrations/WebhookControl.ts"
import { actionCommand } from "../ActionCommand.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answerPage, cli } from "../Output.ts"

const list = Command.make(
  "list",
  { json: Flags.json, project: Flags.project, ...Flags.rangeById },
  Effect.fn(function* ({ json, project, ...range }) {
    const { items, next } = yield* listWebhooks(yield* Flags.projectId(project), range)
    yield* answerPage(json, { items: items.map(itemOf), next }, "webhooks", { flag: "--after" })
  }, onMigratedDatabase)
).pipe(
  Command.withDescription("List the webhooks of a project with their health"),
  Command.withExamples([{ command: `${cli} webhooks list --project demo` }])
)

const test = actionCommand("test", "webhook.test", {
  description: "Send a signed webhook.test.v1 event to a webhook now, enabled or not, and show the answer",
  example: "webhooks test --project demo --installation ins_shop"
})

const enable = actionCommand("enable", "webhook.enable", {
  description: "Enable a webhook; its endpoint is tried at once",
  example: "webhooks enable --project demo --installation ins_shop"
})

const disable = actionCommand("disable", "webhook.disable", {
  description: "Disable a webhook: its pending deliveries are dead-lettered",
  example: "webhooks disable --project demo --installation ins_shop"
})

export const webhooks = Command.make("webhooks").pipe(
  Command.withDescription("List, test, enable and disable the webhooks of a project"),
  Command.withSubcommands([list, test, enable, disable])
)
