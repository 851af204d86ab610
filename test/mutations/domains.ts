/** Mutations of the domains: crm, messaging, campaigns, integrations. */
import { mutating } from "./Mutation.ts"

const addresses = mutating("integrations/Addresses.ts", "integrations/Addresses")
const judgement = mutating("integrations/Preview/Judgement.ts", "integrations/Preview.rules")
const outcomes = mutating("messaging/Connectors/Outcomes.ts", "messaging/Connectors.answers")
const attempts = mutating("messaging/Messages/Attempts.ts", "messaging/Messages.states", "messaging/Messages.retries")
const schedule = mutating("campaigns/Schedule.ts", "campaigns/Schedule")
const claims = mutating("campaigns/Runner/Claims.ts", "campaigns/Runner.recipients", "campaigns/Runner.leases")
const clients = mutating("crm/Clients/Repo.ts", "contract/Clients")
const deals = mutating("crm/Deals/Repo.ts", "contract/Deals.moves")
const idempotency = mutating("platform/idempotency/Idempotency.ts", "contract/Clients.idempotency")

export const domains = [
  addresses('special.has(address) && !reachable.has(address) ? "refused"', 'special.has(address) ? "refused"'),
  addresses("if (starts(0x2002))", "if (false)"),
  mutating("integrations/EndpointUrl.ts", "integrations/EndpointUrl")('url.href.includes("#")', 'url.hash !== ""'),
  judgement("else if (!values.has(target.field)) values", "else values"),
  judgement("Object.entries(fields).toSorted(byName)", "Object.entries(fields)"),
  outcomes('{ from: 408, to: 408, means: "unknown" },', ""),
  outcomes("Duration.min(delay, longestRetryAfter)", "delay", "messaging/Connectors.retryAfter"),
  outcomes('connect_timeout: "postponed"', 'connect_timeout: "unknown"', "messaging/Connectors.failures"),
  attempts("AND messages.attempts = ${number}::int", ""),
  attempts("attempts = attempts + (NOT lost)::int", "attempts = attempts + 1"),
  schedule('disambiguation: "earlier"', 'disambiguation: "later"'),
  schedule("instant < now", "false"),
  claims("OR clients.suppressed", ""),
  claims("attempts < ${attempts}::int AND", ""),
  clients("target.version + diff.changed::int", "target.version + 1"),
  clients(`AND p <> '{"status":"active"}' THEN`, "AND false THEN"),
  clients("WHERE diff.moved", "", "contract/Clients.capacity"),
  clients("projects.active_clients < projects.contact_capacity", "true", "contract/Clients.capacity"),
  deals("AND (target.status, next.status) NOT IN (${sql.literal(statusMoves)})", "AND false"),
  deals("WHEN p ? 'lostReason' THEN p->>'lostReason'", "WHEN false THEN NULL"),
  idempotency("Buffer.compare(first.fingerprint, fingerprint) === 0", "true"),
  idempotency(
    "FROM verdict WHERE failure IS NULL AND EXISTS (SELECT FROM fresh)",
    "FROM verdict WHERE failure IS NULL",
    "contract/Deals.apply"
  ),
  idempotency(
    "AND pg_try_advisory_xact_lock_shared(hashtextextended(project_id, 0))",
    "",
    "project/Projects.concurrency",
    "contract/Neighbours"
  )
]
