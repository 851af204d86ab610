/** What of messages is measured, those of campaigns included. */
import { Metric } from "effect"
import type { ProviderType } from "../../api/messaging/Messaging.ts"

const attempts = Metric.counter("message_attempts_total", {
  description: "Calls of providers, by what they came to",
  incremental: true
})

export const count = (provider: ProviderType, outcome: string) =>
  Metric.update(Metric.withAttributes(attempts, { provider, outcome }), 1)
