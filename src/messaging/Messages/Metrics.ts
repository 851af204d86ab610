/** What of messages is measured. */
import { Metric } from "effect"
import type { ProviderType } from "../../api/messaging/Messaging.ts"
import type { Result } from "./Schedule.ts"

const attempts = Metric.counter("message_attempts_total", {
  description: "Calls of providers, by what they came to",
  incremental: true
})

export const count = (provider: ProviderType, { on }: Result) =>
  Metric.update(Metric.withAttributes(attempts, { provider, outcome: on }), 1)
