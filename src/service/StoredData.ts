/**
 * What the process does with the stored data of all domains, each in one table: secrets, whose keys are checked at start; and records
 * that are deleted once they are old. Events, which need a walk, are with their deliveries.
 */
import { Duration, Effect, Layer } from "effect"
import { sealedHeaders, signingSecrets } from "../webhooks/WebhookSecrets.ts"
import { channelConfigs } from "../messaging/providers/Connectors.ts"
import { Refused } from "../operating/Refusals.ts"
import { plural } from "../platform/Text.ts"
import { type SealedTable, unreadableAll } from "../secrets/SealedValues.ts"
import { eraseTexts, pruneAudiences } from "../campaigns/Retention.ts"
import { allProjects, attemptDays } from "../webhooks/delivery/DeliveryMetrics.ts"
import { retentionDays } from "../webhooks/delivery/DeliveryMaintenance.ts"
import { prune, pruning, type Retention } from "../work/Retention.ts"

export const retentions: ReadonlyArray<Retention> = [
  {
    name: "idempotency pruning",
    kept: ({ idempotencyRetention }) => idempotencyRetention,
    step: (sql, horizon) => prune(sql, { table: "idempotency_keys", age: "created_at", horizon })
  },
  /**
   * Some messages are kept for longer:
   *
   * - A message that is neither sent nor failed: it needs another attempt or an operator.
   * - A message that was changed within the retention: its campaign may not have collected the outcome yet.
   * - A message that is not older than the oldest idempotency key of its project: a repeated send may read the message.
   */
  {
    name: "message pruning",
    kept: ({ idempotencyRetention, messageRetention }) => Duration.max(messageRetention, idempotencyRetention),
    step: (sql, horizon) =>
      prune(sql, {
        table: "messages",
        age: "updated_at",
        horizon,
        condition: sql`AND created_at < ${horizon} AND status IN ('sent', 'failed') AND created_at < coalesce((
          SELECT created_at FROM idempotency_keys
          WHERE project_id = project.project_id AND created_at < 'infinity' ORDER BY created_at LIMIT 1
        ), 'infinity')`
      })
  },
  {
    name: "audience pruning",
    kept: ({ idempotencyRetention, messageRetention }) => Duration.max(messageRetention, idempotencyRetention),
    step: pruneAudiences
  },
  { name: "erased texts", kept: () => Duration.minutes(1), step: (sql, _, age) => eraseTexts(sql, age) },
  {
    name: "deliveries retention",
    kept: () => Duration.days(retentionDays),
    step: (sql, horizon) => prune(sql, { table: "deliveries", age: "finished_at", horizon })
  },
  {
    name: "replays retention",
    kept: () => Duration.days(retentionDays),
    step: (sql, horizon) => prune(sql, { table: "replays", age: "finished_at", horizon })
  },
  {
    name: "attempt minutes retention",
    kept: () => Duration.days(attemptDays),
    step: (sql, horizon) => prune(sql, { table: "attempt_minutes", age: "minute", horizon, common: allProjects })
  }
]

export const pruners = pruning(retentions)

export const sealedTables: ReadonlyArray<SealedTable> = [signingSecrets, sealedHeaders, channelConfigs]

/**
 * Fails the start if secrets are stored and no key of this process opens any of them. So the process seals no secret with a
 * wrong key.
 */
export const secretsChecked = Layer.effectDiscard(
  Effect.gen(function* () {
    const count = yield* unreadableAll(sealedTables)
    if (count > 0) {
      const message = `SECRET_KEY does not open what is stored (${plural(count, "secret", "secrets")}): set the key that sealed it, or name it in SECRET_KEY_PREVIOUS`
      return yield* new Refused({ message })
    }
  })
)
