/** Mutations of the domains (crm, messaging, campaigns, webhooks, imports) and of the console. */
import { hanging, mutating } from "./Mutation.ts"

const batches = mutating("crm/Batches.ts", "contract/Batches")
const addresses = mutating("webhooks/address/Addresses.ts", "webhooks/address/EndpointUrl")
const evaluation = mutating("imports/Evaluation.ts", "imports/Preview")
const previews = mutating("imports/Preview.ts", "contract/Preview")
const outcomes = mutating("messaging/providers/Connector.ts", "messaging/providers/Connectors.outcomes")
const leasing = mutating("messaging/Claim.ts", "messaging/Messages.states", "messaging/Messages.retries")
const schedule = mutating("campaigns/Changes.ts", "campaigns/Schedule")
const sessions = mutating("http/auth/OperatorSessions.ts", "console/Access")
const retryFailed = mutating("campaigns/CampaignControl.ts", "campaigns/RetryFailed")
const recipients = mutating("campaigns/Recipients.ts", "campaigns/Runner.states")
const clients = mutating("crm/Clients/Patch.ts", "contract/Clients")
const clientAddresses = mutating("crm/Clients/Addresses.ts", "contract/Addresses")
const erase = mutating("crm/Clients/Erase.ts", "contract/Erase")
const erasedTexts = mutating("campaigns/Retention.ts", "contract/Erased")
const capacity = mutating("crm/ClientColumns.ts", "contract/Clients")
const deals = mutating("crm/Deals/Patch.ts", "contract/Deals")
const replay = mutating("commands/Mutations.ts", "contract/Walk.keys")
const startingReplays = mutating("webhooks/Replays.ts", "contract/Replays")
const testEvents = mutating("webhooks/TestEvents.ts", "contract/Replays")
const headerNames = mutating("api/integrations/Webhooks.ts", "contract/WebhookHeaders")
const webhookHeaders = mutating("webhooks/WebhookSecrets.ts", "contract/WebhookHeaders")
const webhookReads = mutating("webhooks/Webhooks.ts", "contract/Replays")
const commandStatement = mutating("commands/Kind.ts", "contract/Walk.keys")

export const domains = [
  startingReplays("WHEN webhook.enabled IS NOT TRUE THEN 'webhook_state_conflict'", ""),
  startingReplays("${since >= until}::boolean", "false"),
  startingReplays("Math.min(at.getTime(), ", "Math.min(Infinity, "),
  startingReplays("unnest(webhook.event_types)", "unnest(coalesce(${types}::text[], webhook.event_types))"),
  webhookReads(
    'if (found?.installationId === id) return Struct.omit(found, ["installationId"])',
    "if (found !== undefined) return found"
  ),
  webhookReads("withOwnTime(statement(resume(sql, projectId, webhook)))", "statement(resume(sql, projectId, webhook))"),
  testEvents("AND (parked_until IS NOT NULL OR resting_until IS NOT NULL)", "AND false"),
  testEvents("isSuccess: isSuccess(outcome)", "isSuccess: true"),
  addresses("has(reachable, address) || ", ""),
  addresses("has(sixToFour, address)", "false"),
  addresses("NetAddress.isIpv4Mapped(address) || ", ""),
  addresses('url.href.includes("#")', 'url.hash !== ""'),
  mutating("webhooks/address/Sender.ts", "webhooks/address/Sender.answers")("other.startsWith(one)", "true"),
  evaluation("else if (!values.has(target.field)) values", "else values"),
  evaluation("email: (text) => text.trim()", "email: (text) => text"),
  evaluation('.replace(/^00/, "+")', ""),
  evaluation("(counts.get(externalField) ?? 0) + 1", "1"),
  evaluation("Object.entries(fields).toSorted(byName)", "Object.entries(fields)"),
  previews('names: [hashOf("preview", projectId)]', "names: []"),
  outcomes('{ from: 408, to: 408, means: "unknown" },', ""),
  outcomes("Duration.min(delay, longestRetryAfter)", "delay"),
  outcomes('connect_timeout: "postponed"', 'connect_timeout: "unknown"'),
  leasing('AND ${isAwake(sql, "queue.project_id")}', ""),
  mutating("messaging/Calls.ts", "messaging/Messages.states")("AND messages.attempts = result.number", ""),
  leasing("attempts = attempts + (NOT lost)::int", "attempts = attempts + 1"),
  schedule('disambiguation: "earlier"', 'disambiguation: "later"'),
  schedule("instant < now", "false"),
  mutating("campaigns/Runner/Release.ts", "campaigns/Runner.states")("OR clients.suppressed", ""),
  mutating("campaigns/Runner/Release.ts", "campaigns/Runner.states")("clients.id IS NULL OR ", ""),
  erase("target.id IS NULL OR old_version = seen_version", "true"),
  erase("address = ''", "address = address"),
  erase("suppressed = true", "suppressed = clients.suppressed"),
  erase("contact_capacity IS NOT NULL AND status = 'active' AS counts", "false AS counts"),
  erase("SET contact_count = contact_count - 1", "SET contact_count = contact_count"),
  erasedTexts(
    "UNION ALL\n    SELECT erasure.project_id, erasure_id, sent.id",
    "UNION ALL\n    SELECT erasure.project_id, erasure_id, NULL"
  ),
  erasedTexts("UPDATE erasures SET passed = true FROM finished", "DELETE FROM erasures USING finished"),
  erasedTexts('without(sql, "reason")', 'sql.literal("attempt_log")'),
  mutating("messaging/Calls.ts", "contract/Erased")("entry - 'reason'", "entry"),
  leasing("IS DISTINCT FROM '' AS reachable", "IS NOT NULL AS reachable", "contract/Erased"),
  mutating("messaging/Message.ts", "contract/Erase")("AND conversations.address <> ''", ""),
  mutating(
    "campaigns/Retention.ts",
    "campaigns/Retention",
    "contract/Erased"
  )("(abandoned_at < ${horizon} AND", "(true AND"),
  mutating("campaigns/Runner/Release.ts", "campaigns/Runner.release")("LEFT JOIN made", "JOIN made"),
  leasing("${sql.literal(dueAt)} > ${oldestDue(sql, now)}", "true", "campaigns/Runner.release"),
  mutating("campaigns/Runner.ts", "campaigns/RetryFailed")(" AND campaigns.version = seen.version", ""),
  mutating("campaigns/Runner.ts", "campaigns/Runner.fairness")("2 * (now - releasedAt)", "0"),
  mutating("campaigns/Runner/Release.ts", "campaigns/Runner.fairness")("AND ${hasCandidate(sql, now)}", ""),
  mutating("messaging/providers/ChannelLimits.ts", "campaigns/Runner.fairness")(
    "const perChannel = 512",
    "const perChannel = 64"
  ),
  mutating("campaigns/Recipients.ts", "campaigns/Runner.release")(
    "LIMIT least(paced.quota + ${maxSkipped}::int, paced.share)",
    "LIMIT paced.quota + ${maxSkipped}::int FOR NO KEY UPDATE"
  ),
  mutating("campaigns/Recipients.ts", "campaigns/Runner.release")(", paced.share)", ", 100_000)"),
  mutating("campaigns/Runner/Release.ts", "campaigns/Runner.release")(
    "/ (SELECT count(DISTINCT project_id) FROM campaign)",
    ""
  ),
  mutating("campaigns/Runner/Release.ts", "campaigns/Runner.release")("ORDER BY turn, ", "ORDER BY "),
  mutating("messaging/Message.ts", "campaigns/Runner.states")("number - 1 - earlier", "number - 1"),
  mutating("messaging/Message.ts", "campaigns/Runner.states")("attempts - jsonb_array_length(attempt_log)", "0"),
  mutating("messaging/Message.ts", "campaigns/Runner.states")(" OR NOT entry @? '${isUncalled}'", ""),
  mutating("messaging/Claim.ts", "campaigns/Runner.states")('keptLog("message.attempt_log")', '"message.attempt_log"'),
  leasing('keptLog("attempt_log")', '"attempt_log"'),
  mutating("messaging/Message.ts", "messaging/Messages.retries")('inDoubt ? "ended_in_doubt" : "refused"', '"refused"'),
  leasing("(NOT in_doubt OR channels.provider_version = ranked.provider_version)", "true"),
  leasing("is_lost OR NOT is_late AND", "is_lost OR"),
  leasing("AND ranked.address <> '' ", "", "contract/Erased"),
  mutating("campaigns/Runner/Release.ts", "contract/Erased")(") = ''", ") = 'gone'"),
  mutating("campaigns/Retention.ts", "campaigns/Retention")("AND status = 'unknown' LIMIT 1", "AND false LIMIT 1"),
  mutating("campaigns/Retention.ts", "campaigns/Retention")("ORDER BY random()", "ORDER BY project_id"),
  mutating("messaging/MessageControl.ts", "campaigns/Retention")(
    "SET abandoned_at = ${at}",
    "SET abandoned_at = audiences.abandoned_at"
  ),
  mutating("service/StoredData.ts", "webhooks/delivery/DeliverRetention")(
    'table: "replays", age: "finished_at"',
    'table: "replays", age: "created_at"'
  ),
  mutating("campaigns/Runner.ts", "campaigns/Runner")(
    ".pipe(Effect.scoped, Effect.uninterruptible)",
    ".pipe(Effect.scoped)"
  ),
  mutating("messaging/MessageLoop.ts", "messaging/MessageLoop")("yield* taking.takeScoped(1)", "yield* Effect.void"),
  mutating("messaging/MessageLoop.ts", "messaging/MessageLoop")("isEnding() ? giveBack : attempt", "attempt"),
  mutating("messaging/MessageLoop.ts", "messaging/MessageLoop")('mode !== "taking" || isEnding()', "isEnding()"),
  mutating("campaigns/Runner/Release.ts", "campaigns/Runner.states")("AND route.provider_version = (", "AND 0 < ("),
  mutating("service/StoredData.ts", "messaging/MessagePruner")(
    "AND created_at < coalesce((",
    "AND 'epoch' < coalesce(("
  ),
  mutating("messaging/MessageControl.ts", "campaigns/Runner.release")("recipient.status NOT IN (${final})", "false"),
  hanging(
    mutating("campaigns/Retention.ts", "campaigns/Retention")(
      "giveUp, pruneAbandoned, pruneEnded",
      "pruneAbandoned, pruneEnded"
    )
  ),
  mutating("messaging/providers/Connectors/Telegram.ts", "messaging/providers/Connectors.outcomes")(
    "movedTo === undefined ||",
    "true ||"
  ),
  mutating("messaging/providers/Connector.ts", "messaging/providers/Connectors.outcomes")(
    'text.replaceAll(Redacted.value(secret), "[redacted]")',
    "text"
  ),
  mutating("messaging/providers/Connector.ts", "messaging/Messages.retries")("shown.slice(0, reasonLimit)", "shown"),
  mutating("webhooks/WebhookList.ts", "console/Questions")(
    "coalesce(last_success_at < webhooks.updated_at, true)",
    "false"
  ),
  mutating("campaigns/CampaignControl.ts", "cli/database")("IN ('scheduled', 'running')", "IN ('running')"),
  mutating("campaigns/Campaigns/Freeze.ts", "contract/Campaigns")(
    "> ${maxCandidates}::int",
    "> 2 * ${maxCandidates}::int"
  ),
  mutating("messaging/MessageControl.ts", "console/Questions")(', "opened")', ', "project")'),
  mutating("console/pages/Deliveries.ts", "console/Questions")("probe.deliveryId === id", "probe.deliveryId !== id"),
  mutating("console/pages/Campaigns.ts", "console/Questions")('status === "completed" && failed > 0', "false"),
  retryFailed("AND status = ${sql.literal(`'${from}'`)}", "AND status IN ('failed', 'unknown')"),
  retryFailed(
    "message_id = NULL, error_code = NULL, retries = recipient.retries + 1",
    "message_id = NULL, error_code = NULL"
  ),
  retryFailed("in_doubt = false, ", ""),
  retryFailed("changed: sql`number > 0`", "changed: sql`true`"),
  mutating("campaigns/Recipients.ts", "campaigns/RetryFailed")("',' || nullif(${retries}, 0), ", ""),
  mutating("campaigns/Runner/Release.ts", "campaigns/RetryFailed")(
    "coalesce(error_code, 'unreachable')",
    "'unreachable'"
  ),
  mutating("campaigns/CampaignList.ts", "campaigns/RetryFailed")("ORDER BY number DESC, code", "ORDER BY number, code"),
  mutating("campaigns/Changes.ts", "contract/Campaigns")('  timeZone: "time_zone",\n', ""),
  recipients("${isInDoubt(sql)} AS in_doubt", "false AS in_doubt"),
  mutating("crm/Clients/Patch.ts", "contract/Walk.conditions")("WHEN NOT ${holds} THEN", "WHEN false THEN"),
  mutating("crm/Deals/Patch.ts", "contract/Walk.conditions")("WHEN NOT ${form.holds} THEN", "WHEN false THEN"),
  mutating("crm/Tickets.ts", "contract/Walk.conditions")("WHEN NOT ${holds} THEN", "WHEN false THEN"),
  mutating("campaigns/CommandStatement.ts", "contract/Walk.conditions")(
    'WHEN NOT ${sql.literal(matches("target.version"))}',
    "WHEN false"
  ),
  mutating("crm/ClientColumns.ts", "contract/Clients")("WHEN organization.archived THEN", "WHEN false THEN"),
  clients(`AND p <> '{"status":"active"}' THEN`, "AND false THEN"),
  clients('eventPrevious("(updated.before)", "updated")', 'eventPrevious("updated", "updated")'),
  clients("clients.version + 1", "clients.version"),
  clients("WHEN holder.id <> command.id THEN", "WHEN false THEN", "contract/ExternalIds"),
  mutating("crm/Clients.ts", "contract/ExternalIds")("WHEN holder.id IS NOT NULL THEN", "WHEN false THEN"),
  deals("WHEN holder.id <> command.id THEN", "WHEN false THEN", "contract/ExternalIds"),
  mutating("crm/Deals.ts", "contract/ExternalIds")("WHEN holder.id IS NOT NULL THEN", "WHEN false THEN"),
  mutating("crm/Deals.ts", "contract/ExternalIds")(
    "WHEN holder.id IS NOT NULL THEN",
    "WHEN invalid = '{}' AND holder.id IS NOT NULL THEN"
  ),
  mutating("crm/Tasks.ts", "cli/task")("yield* retryContended(", "yield* ("),
  clientAddresses("WHEN NOT ${holds} THEN", "WHEN false THEN", "contract/Walk.conditions"),
  clientAddresses("WHEN status = 'archived' THEN", "WHEN false THEN"),
  clientAddresses("WHERE channel.id IS NULL LIMIT 1", "WHERE false LIMIT 1"),
  clientAddresses("WHERE target.ord IS NULL OR old_version = seen_version", ""),
  clientAddresses("AND client_addresses.position >= jsonb_array_length(applied.addresses)", "AND false"),
  capacity("contact_capacity - active_clients AS free", "contact_capacity + 1 - active_clients AS free"),
  capacity("active_clients + moves.change", "active_clients"),
  mutating("crm/References.ts", "contract/ExternalIds")("isOutdated(error) ? Effect.delay(upsert(parts), pause) :", ""),
  batches("key: `${id} ${index}`", "key: `${id} ${index} ${Math.random()}`"),
  batches("&& outages.length + 1 === items.length", "&& items.length === 0"),
  batches("result.success.replayed)", "true)"),
  batches("created: hasCreated(result.success)", "created: changed"),
  batches("location.replace(/^body/, `body/items/${index}`)", "location"),
  mutating("api/crm/Batches.ts", "contract/Batches")("return isRepeated ?", "return seen.size < 0 ?"),
  mutating("crm/Http.ts", "contract/Batches")("Math.ceil(request.payload.items.length / itemsPerToken)", "1"),
  mutating("crm/Clients.ts", "contract/ExternalIds")("CASE WHEN \"status\" = 'archived' THEN at END", "NULL"),
  deals("WHEN immovable THEN 'deal_status_invalid'", ""),
  deals("WHEN p ? 'lostReason' THEN p->>'lostReason'", "WHEN false THEN NULL"),
  mutating("webhooks/ConfigureWebhook.ts", "contract/Webhooks")(
    "WHEN ${current?.opens === false}::boolean THEN 'secret_not_opened'",
    ""
  ),
  headerNames("reserved.has(key)", "false"),
  headerNames("name.toLowerCase()", "name"),
  webhookHeaders("if (names.length === 0) return noHeaders", ""),
  webhookHeaders("if (headers === undefined) return stored", "if (headers === undefined) return noHeaders"),
  webhookHeaders("=== comparable(headers)) return stored", "=== comparable(headers)) {}"),
  webhookHeaders("[name.toLowerCase(), value]", "[name, value]"),
  mutating("webhooks/ConfigureWebhook.ts", "contract/WebhookHeaders")(
    "target.enabled, target.headers)\n          IS DISTINCT FROM (${endpointUrl}::text, ${eventTypes}::text[], true, ${headers.sealed}::bytea)",
    "target.enabled)\n          IS DISTINCT FROM (${endpointUrl}::text, ${eventTypes}::text[], true)"
  ),
  mutating("webhooks/address/Sender.ts", "contract/WebhookHeaders")('text.replace(given, "[redacted]")', "text"),
  mutating("service/StoredData.ts", "cli/secrets")("sealedHeaders, channelConfigs", "channelConfigs"),
  mutating("webhooks/WebhookSecrets.ts", "cli/secrets")("AND webhook_secrets.sealed = change.sealed", ""),
  mutating("webhooks/WebhookSecrets.ts", "cli/secrets")("WHERE ${livesHere(sql, sql`move_state`)}", ""),
  mutating("secrets/SealedValues.ts", "cli/secrets")("AND ${livesHere(sql, sql`move_state`)}", ""),
  mutating("secrets/SealedValues.ts", "cli/secrets")("WHERE record.${column} = given.sealed AND ", "WHERE "),
  sessions("WHERE NOT EXISTS (SELECT FROM console_ended_sessions WHERE session_id = ${id}::uuid)", "WHERE ${id} <> ''"),
  sessions("AND ${databaseIdentity(sql)} = ${database}", "AND ${database} <> ''"),
  sessions("DELETE FROM console_ended_sessions WHERE expires_at <= now()", "SELECT"),
  mutating("console/pages/Overview.ts", "console/Overview")("const refused = hasLimiter ?", "const refused = true ?"),
  mutating("sql/Database.ts", "console/Overview")("diskFull.at = performance.now()", "{}"),
  mutating("console/Answers.ts", "faults/Pooler")("outage === undefined ?", "true ?"),
  mutating("operators/Troubles.ts", "faults/Clocks")("Math.abs(aheadSeconds) > 5", "false"),
  mutating("operators/History.ts", "console/History")('  key: "key_id",\n', ""),
  mutating("operators/Actions.ts", "console/Browser")("and before ${end}", "and before ${until}"),
  mutating("console/Console.ts", "console/Access")(
    "if (Option.isSome(earlier)) yield* sessions.end(earlier.value)",
    ""
  ),
  mutating("console/Console.ts", "console/Access")("if (isCrossSite(request))", "if (false)"),
  mutating("console/Page.ts", "console/Access")("'transaction_read_only', 'on'", "'transaction_read_only', 'off'"),
  mutating("webhooks/delivery/DeliveryList.ts", "console/Lists")("AND answer = ${answer}", ""),
  mutating("messaging/MessageControl.ts", "console/Lists")("OR campaign_id = ${campaignId}", "OR true"),
  mutating("operating/Lists.ts", "console/Lists")(
    "created_at < ${until?.toISOString()",
    "created_at < ${since?.toISOString()"
  ),
  mutating("operating/Lists.ts", "console/Lists")("AND id < ${below}", ""),
  mutating("webhooks/delivery/DeliveryList.ts", "console/Overview")("AND replayed_by IS NULL AND", "AND"),
  mutating("operators/Troubles.ts", "console/Overview")('FROM found WHERE ${isAwake(sql, "project_id")}', "FROM found"),
  mutating("console/Layout.ts", "console/Browser")('href="#content"', 'href="#main"'),
  mutating("project/Deletion.ts", "cli/audit")("if (state === null) yield*", "if (false) yield*"),
  mutating("console/Answers.ts", "console/Access")('confirmed === "yes"', "true"),
  mutating("messaging/MessageControl.ts", "console/Lists")("AND messages.available_at IS NULL", ""),
  mutating("operating/AuditedActions.ts", "console/Browser")("FROM applied WHERE changed", "FROM applied WHERE false"),
  replay("Buffer.compare(first.fingerprint, fingerprint) === 0", "true"),
  replay("if (row.applied) {", "if (row.failure === null) {"),
  commandStatement("WHERE failure IS NULL", ""),
  commandStatement(
    "AND projects.revision = ${sql.literal(revision)}",
    "AND ${sql.literal(revision)} IS NOT NULL",
    "contract/Meanwhile"
  ),
  mutating("outbox/Outbox.ts", "webhooks/delivery/DeliverEvents")(
    "WHERE webhooks.project_id = projects.project_id",
    "WHERE false"
  )
]
