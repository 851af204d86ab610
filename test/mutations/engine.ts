/**
 * Mutations of the background work: shares of slots, supervision, batches, takeover, cost of a claim. Each removes one of
 * these guarantees.
 */
import { hanging, mutating } from "./Mutation.ts"

const slots = mutating("webhooks/delivery/DeliveryLoop/Visits.ts", "webhooks/delivery/DeliveryLoop")
const pace = mutating("work/DeliveryPace.ts", "work/DeliveryPace")
const permits = mutating("messaging/providers/ChannelLimits.ts", "messaging/providers/ChannelLimits")
const supervisor = mutating("work/Supervisor.ts", "work/Supervisor")
const deadLetter = mutating("webhooks/delivery/DeliveryMaintenance.ts", "webhooks/delivery/DeliverBacklog")
const disabling = mutating("webhooks/delivery/Disabling.ts", "webhooks/delivery/DeliverHealth")
const recovery = mutating("webhooks/delivery/Recovery.ts", "webhooks/delivery/DeliverStates")
const visits = mutating("webhooks/delivery/DeliveryLoop/Visits.ts", "webhooks/delivery/DeliverFairness")
const webhookCommands = mutating("webhooks/ConfigureWebhook.ts", "contract/Meanwhile")
const lockedResults = mutating("webhooks/delivery/DeliveryLoop/Record.ts", "webhooks/delivery/DeliverRecovery")
const recording = mutating("webhooks/delivery/DeliveryLoop/Record.ts", "webhooks/delivery/DeliverHealth")
const replaying = mutating("webhooks/Replays.ts", "webhooks/Replays")

const due = mutating("webhooks/WebhookList.ts", "webhooks/delivery/DeliverBacklog")

export const engine = [
  mutating("webhooks/delivery/DeliveryList.ts", "webhooks/Replays")(', "replayed"]', "]"),
  due("greatest(due, parked_until, resting_until)", "due"),
  due("ORDER BY ${sql.literal(isBehind)} DESC, due", "ORDER BY due"),
  slots("factor * free[slotClass] - count", "factor * free[slotClass]"),
  slots("/ (factor + 1)", ""),
  slots('suspect ? "suspect" : "healthy"', '"healthy"'),
  pace("credit += commandsPerDelivery", "credit++"),
  pace("if (behind.has(projectId)) credit -= deliveries - 1", ""),
  pace("if (!behind.has(projectId)) return Effect.void", "if (behind.size === 0) return Effect.void"),
  pace("waiting.splice(at, 1)", "at"),
  hanging(pace("setTimeout(leave, heldAtMost)", "undefined")),
  mutating("webhooks/delivery/DeliveryLoop/EndpointQueues.ts", "webhooks/delivery/DeliveryLoop")(
    "isFull && now < promptUntil",
    "isFull"
  ),
  permits("Math.floor(total * suspectShare) - suspects", "total"),
  permits("?? 0) + entry.held", "?? 0) + 1"),
  permits("if (!taken) return", ""),
  permits("Effect.provideService(Clock.Clock, durations),", ""),
  permits("CircuitBreaker.failure()", "CircuitBreaker.ignored"),
  supervisor("Effect.forkScoped(Effect.forever(run))", "Effect.forkScoped(run)"),
  supervisor("monotonicMillis(clock) - progressAt >= stalledAfter", "false"),
  supervisor("if (!outlives) entry.fiber = fiber", "entry.fiber = fiber"),
  hanging(
    mutating("webhooks/delivery/DeliveryLoop.ts", "webhooks/delivery/DeliverRecovery")(
      "Effect.andThen(cycle, progress)",
      "Effect.andThen(progress, cycle)"
    )
  ),
  deadLetter("WHERE NOT enabled LIMIT ${deadLetterBatch}::int", "WHERE NOT enabled"),
  deadLetter("(SELECT count(*) FROM waiting) < ${deadLetterBatch}::int", "true"),
  deadLetter(
    "LIMIT ${deadLetterBatch}::int\n      FOR NO KEY UPDATE SKIP LOCKED\n    ) expired",
    "LIMIT 0\n    ) expired"
  ),
  visits("WHERE claim_at <= now() AND ${able}", "WHERE ${able}", "webhooks/delivery/DeliverCost"),
  visits("(SELECT count(*) FROM ${first}) = ${free} AND", "false AND"),
  visits("ORDER BY turn, claim_at) AS place", "ORDER BY claim_at) AS place"),
  visits("nth IS NOT NULL AND turn <= coalesce(", "nth IS NOT NULL AND 0 < coalesce("),
  visits("named.length * concurrency <= newcomer", "true"),
  visits("bool_and(slots = lacking) OVER (PARTITION BY suspect, project_id)", "true"),
  visits('AND ${isAwake(sql, "health.project_id")}', ""),
  visits("EXCEPT SELECT project_id, installation_id FROM endpoint", "LIMIT 0"),
  recording("(webhooks.version = endpoint.version OR NOT enabled)::int AS is_current", "1 AS is_current"),
  recording("is_current = 0 AND given_move", "false AND given_move"),
  recording("greatest(retry_in, is_current * rest_for)", "greatest(retry_in, rest_for)"),
  recording("CASE WHEN NOT ok THEN coalesce(failing_since, failed_at) END", "coalesce(failing_since, failed_at)"),
  disabling("yield* countDisabled(reason)", ""),
  mutating("webhooks/delivery/DeliveryMetrics.ts", "webhooks/delivery/DeliverCost")("snapshots?.seconds ?? 0", "0"),
  mutating("webhooks/Endpoint.ts", "webhooks/delivery/DeliverHealth")("strikesToSuspect = 3", "strikesToSuspect = 4"),
  mutating("webhooks/Endpoint.ts", "webhooks/delivery/DeliverHealth")("failures >= ${failuresToDisable}::int AND", ""),
  disabling("version = current AND (", "("),
  disabling("      FOR NO KEY UPDATE SKIP LOCKED\n    ) webhook", "    ) webhook"),
  mutating("platform/Pools.ts", "webhooks/delivery/DeliverCost")('enable_sort: "off"', 'enable_sort: "on"'),
  mutating("webhooks/delivery/DeliveryLoop/Claim.ts", "webhooks/delivery/DeliverCost")("LIMIT quota + 1", ""),
  mutating("webhooks/delivery/DeliveryLoop/Claim.ts", "webhooks/delivery/DeliverRecovery")(
    "FOR NO KEY UPDATE SKIP LOCKED) free",
    ") free"
  ),
  mutating("webhooks/ConfigureWebhook.ts", "webhooks/delivery/DeliverEvents")(
    "LIMIT ${signingSecretsMax - 1}::int",
    ""
  ),
  mutating("webhooks/delivery/Attempt.ts", "webhooks/delivery/DeliverStates")(
    "AS aged WHERE age < ${attempts}",
    "AS aged"
  ),
  mutating("webhooks/delivery/Attempt.ts", "webhooks/delivery/DeliverStates")(
    "ELSE attempt - 'responseBody' END",
    "ELSE attempt END"
  ),
  mutating("webhooks/delivery/Deliveries.ts", "contract/Webhooks")(
    "target.retry_commands >= ${maxRetryCommands}",
    "false"
  ),
  recovery("open_from = open_until\n", "open_from = health.open_from\n", "webhooks/delivery/DeliverCost"),
  recovery("available_at >= open_from - ${back}", "available_at >= open_from", "webhooks/delivery/DeliverCost"),
  mutating("webhooks/delivery/DeliveryLoop/Claim.ts", "webhooks/delivery/DeliverCost")(
    "AND available_at >= visit.open_from",
    ""
  ),
  recovery("greatest(created_at, leased_until -", "greatest('-infinity', leased_until -"),
  recovery("OR leased_until <= now()\n  ),", "\n  ),"),
  recovery("AND xmin = row_version", ""),
  lockedResults("FOR NO KEY UPDATE OF endpoint_health SKIP LOCKED", "FOR NO KEY UPDATE OF endpoint_health"),
  lockedResults("WHERE at NOT IN (SELECT at FROM gate) AND EXISTS (", "WHERE false AND EXISTS ("),
  lockedResults("WHERE (project_id, id) NOT IN (SELECT project_id, id FROM free)", "WHERE false"),
  mutating("webhooks/delivery/DeliveryMaintenance.ts", "webhooks/delivery/DeliverRetention")(
    "worker.isFirst() ? prunedEvents",
    "true ? prunedEvents"
  ),
  webhookCommands("WHERE target.version IS NOT DISTINCT FROM (SELECT version FROM seen)", ""),
  recovery('${isAwake(sql, "project_id")} AND (', "(true OR"),
  recovery("coalesce(next_due_at > greatest(due_at, now()), true)", "false", "webhooks/delivery/DeliverCost"),
  mutating("work/Worker.ts", "work/Worker")("(other) => other === id", "() => true"),
  hanging(mutating("outbox/Outbox.ts", "outbox/Notifier")('!isOnly || notice.on === "changed"', "!isOnly")),
  mutating("work/Worker.ts", "work/Worker")("SELECT (classid::bigint << 32)", "SELECT (classid::bigint << 31)"),
  replaying("AND is_over", ""),
  replaying("(original IS NOT NULL OR occurred_at", "(true OR occurred_at", "webhooks/Replays.selections"),
  replaying(
    "greatest(webhook_since, now() - ${retentionDays}::int * interval '1 day')",
    "webhook_since",
    "webhooks/Replays.selections"
  ),
  replaying("PARTITION BY project_id ORDER BY random()", "ORDER BY random()", "webhooks/Replays.selections"),
  replaying("is_delivered = (replay.status = 'delivered')", "true"),
  replaying("AND replay_id IS NOT NULL AND finished_at IS NULL", "AND false"),
  recording("WHERE replay_id IS NOT NULL AND on_move = 'succeeded'", "WHERE false", "webhooks/Replays"),
  mutating("webhooks/delivery/DeliveryLoop/Record.ts", "webhooks/delivery/DeliverRecovery")("counter++", ""),
  mutating("webhooks/delivery/DeliveryLoop.ts", "webhooks/delivery/DeliverRecovery")(
    "Effect.sync(() => queues.name(named))",
    "Effect.void"
  ),
  mutating("cells/Checks.ts", "faults/Move.ends")("until: ([row]) => row?.count === 0", "until: () => true"),
  mutating("cells/Checks.ts", "cells/Moves")("worker_id IS NOT NULL OR", "worker_id IS NULL OR"),
  mutating("cells/Checks.ts", "cells/Moves")("  yield* olderEnded(source)\n", ""),
  mutating("cells/Moves.ts", "faults/Move.ends")("there === undefined && !isDeleted", "false"),
  mutating("cells/Moves.ts", "faults/Move.ends")("if (there !== undefined && there.state", "if (there?.state"),
  mutating("operating/Refusals.ts", "webhooks/Replays.moved")(
    "AND ${livesHere(sql, sql`move_state`)}\n    FOR KEY SHARE",
    "FOR KEY SHARE"
  ),
  mutating("cells/Checks.ts", "faults/Move.ends")("|| other.get(name)?.sum !== sum", ""),
  mutating("cells/Replication.ts", "faults/Move.ends")(
    "yield* dropSlots(source, name)\n  yield* source`DROP PUBLICATION",
    "yield* source`DROP PUBLICATION"
  )
]
