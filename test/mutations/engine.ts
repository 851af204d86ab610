/**
 * Mutations of the background work: shares of slots, supervision, batches, takeover, cost of a claim. Each removes one of
 * these guarantees.
 */
import { mutating } from "./Mutation.ts"

const slots = mutating("integrations/Deliveries/Slots.ts", "integrations/Slots")
const permits = mutating("platform/background/Slots.ts", "platform/background/Slots")
const supervisor = mutating("platform/background/Supervisor.ts", "platform/background/Supervisor")
const deadLetter = mutating("integrations/Deliveries/DeadLetter.ts", "integrations/DeliverBacklog")
const endpoints = mutating("integrations/Deliveries/Claim/Endpoints.ts", "integrations/DeliverCost")
const replaying = mutating("integrations/Replays/Release.ts", "integrations/Replays")

export const engine = [
  slots("if (now - slot.startedAt < agedAfter || used.aged >= agedSlots) break", "break"),
  slots("used.aged >= agedSlots", "false"),
  slots("Math.max(0, healthySlots - used.healthy)", "healthySlots - used.healthy"),
  slots('suspect ? "suspect" : "healthy"', '"healthy"'),
  permits("Math.floor(total * failingShare) - suspects", "total"),
  permits("Math.max(0, perTenant - taken)", "perTenant"),
  permits("if (!taken) return", ""),
  supervisor("Effect.forkScoped(Effect.forever(run))", "Effect.forkScoped(run)"),
  supervisor("clock.monotonicTimeNanosUnsafe() - progressAt >= stalledAfter", "false"),
  mutating("integrations/DeliveryLoop.ts", "server/ClockSetBack")("monotonicMillis(clock)", "now()"),
  mutating("integrations/DeliveryLoop.ts", "integrations/DeliverStalled")(
    "Effect.andThen(cycle, progress)",
    "Effect.andThen(progress, cycle)"
  ),
  deadLetter("WHERE NOT enabled LIMIT ${deadLetterBatch}::int", "WHERE NOT enabled"),
  deadLetter("(SELECT count(*) FROM waiting) < ${deadLetterBatch}::int", "true"),
  deadLetter(
    "LIMIT ${deadLetterBatch}::int\n      FOR NO KEY UPDATE SKIP LOCKED\n    ) expired",
    "LIMIT 0\n    ) expired"
  ),
  endpoints("WHERE claim_at <= now() AND NOT suspect AND", "WHERE NOT suspect AND"),
  mutating("integrations/Deliveries/Claim.ts", "integrations/DeliverCost")("LIMIT quota + 1", ""),
  mutating("integrations/Webhooks/Repo.ts", "integrations/DeliverEvents")("LIMIT ${signingSecretsMax - 1}::int", ""),
  mutating("integrations/Deliveries/Claim/Endpoints.ts", "integrations/DeliverShares")(
    "WHEN sum(lacking) OVER (PARTITION BY suspect) <= free THEN ahead",
    "WHEN true THEN ahead"
  ),
  mutating("integrations/Deliveries/Reclaim.ts", "integrations/DeliverStates")(
    "OR leased_until <= now()\n  ),",
    "\n  ),"
  ),
  mutating("integrations/Deliveries/Reclaim.ts", "integrations/DeliverStates")(
    "WHERE worker_id IS NOT NULL AND (",
    "WHERE worker_id IS NOT NULL AND (true OR"
  ),
  mutating("integrations/Deliveries/Results.ts", "integrations/DeliverBacklog")(
    'lease.endpointUrl, "failing"',
    'null, "failing"'
  ),
  mutating("integrations/Deliveries/Sweep.ts", "integrations/DeliverUnannounced")(
    "coalesce(next_due_at > greatest(available_at, now()), true)",
    "false"
  ),
  mutating("platform/background/Worker.ts", "platform/background/Worker")(
    "SELECT (classid::bigint << 32)",
    "SELECT 1 + (classid::bigint << 32)"
  ),
  mutating("integrations/Replays/Release.ts", "integrations/Replays.properties")("- queue.due", ""),
  replaying("CASE WHEN suspect THEN 1 - (", "CASE WHEN suspect THEN 0 - ("),
  replaying("CASE WHEN suspect THEN 1 - (", "CASE WHEN suspect THEN 9 - ("),
  replaying("WHEN enabled THEN 'release' ELSE 'end'", "ELSE 'release'")
]
