/** Mutations of what has no domain. */
import { hanging, mutating } from "./Mutation.ts"

const cursors = mutating("http/pages/Cursors.ts", "contract/Walk.pages")
const pages = mutating("http/pages/Pages.ts", "contract/Walk.pages")
const token = mutating("http/auth/Credentials.ts", "http/auth/ApiKeys")
const bearer = mutating("http/path/Middleware.ts", "contract/Walk")
const credentials = mutating("http/auth/Credentials.ts", "http/auth/Credentials")
const batches = mutating("sql/Batches.ts", "sql/Database/Timeouts")
const ending = mutating("http/auth/EndingKeys.ts", "http/auth/EndingKeys")
const keyReads = mutating("http/auth/Credentials.ts", "http/auth/Credentials")
const embedded = mutating("sql/embedded/EmbeddedPostgres.ts", "sql/embedded/EmbeddedPostgres")
const keys = mutating("http/auth/ApiKeys.ts", "http/auth/ApiKeys", "cli/token")
const limits = mutating("http/limits/RateLimits.ts", "contract/Walk.order")
const buckets = mutating("http/limits/RateLimits.ts", "contract/Walk.order")
const throttle = mutating("http/limits/RateLimits.ts", "contract/Walk.order")
const connections = mutating("outbound/Connections.ts", "webhooks/address/Sender.connections")
const listening = mutating("cli/commands/listen.ts", "cli/listen")
const outbox = mutating("outbox/Outbox.ts", "contract/Deals")
const preconditions = mutating("commands/Command.ts", "contract/Walk.conditions")
const conditions = mutating("http/path/Handlers.ts", "contract/Walk.conditions")
const signatures = mutating("secrets/StandardWebhooks.ts", "secrets/SecretBox")

export const platform = [
  cursors("[projectId, operation, filters]", "[operation, filters]"),
  cursors("[projectId, operation, filters]", "[projectId, filters]"),
  cursors("[projectId, operation, filters]", "[projectId, operation]"),
  cursors(' || bytes.toString("base64url") !== cursor', ""),
  cursors("timingSafeEqual(macOf(key, list, body), bytes.subarray(0, macLength))", "true"),
  pages("const size = 1 + (", "const size = ("),
  pages("AND (created_at, id) <", "AND (created_at, id) <="),
  pages("if (bound <= maxBytes) return items", "return items"),
  pages("AND updated_at <= (SELECT ${after.until}::timestamptz)", "", "contract/UpdatedSince"),
  pages("AND updated_at >= (SELECT", "AND updated_at > (SELECT", "contract/Walk.filters"),
  pages("6 * value.length + 3", "value.length"),
  mutating("sql/Times.ts", "sql/Batches")("125 * parts + carry", "125 * parts"),
  mutating("operating/Lists.ts", "cli/lists")("scanned === scanLimit", "false"),
  mutating("sql/migrations/Migrations.ts", "sql/migrations/Migrations")("analyzeChanged(sql))", "Effect.void)"),
  mutating("sql/migrations/Ledger.ts", "sql/migrations/Migrations")("same.checksum !== checksum", "false"),
  mutating("sql/migrations/Ledger.ts", "sql/migrations/Migrations")("&& name < last", "&& name > last"),
  embedded('if (usedBy === "service") yield* own(session, directory)', ""),
  embedded('usedBy === "service" || (yield*', "(yield*"),
  embedded("case when pg_advisory_unlock_shared(2) then pg_try_advisory_lock(2) end", "true"),
  embedded("case when pg_advisory_unlock_shared(2) then pg_try_advisory_lock(2) end", "false"),
  embedded("yield* inside.query(giveToRole, [], false)", ""),
  embedded("Cluster.serviceUrlOf(cluster, server.port)", "Cluster.ownerUrlOf(cluster, server.port, Cluster.name)"),
  mutating("sql/embedded/Processes.ts", "sql/embedded/EmbeddedPostgres")("(mode & traverse) === 0", "false"),
  mutating("sql/embedded/Cluster.ts", "sql/embedded/EmbeddedPostgres")(
    "privileges.mayEnter(Path.dirname(installed.postgres))",
    "true"
  ),
  mutating("sql/Client.ts", "sql/Database/Connections")(
    "Effect.andThen(connection.pin, Effect.yieldNow)",
    "Effect.scope"
  ),
  mutating("sql/Client.ts", "sql/Batches")("    compiler,", "    compiler: PgClient.makeCompiler(),"),
  mutating("sql/Client.ts", "sql/Batches")("begun < idleAfter", "true"),
  mutating("platform/Pools.ts", "sql/Database/Sessions")("maxMessageSize = 2 ** 30", "maxMessageSize = 2 ** 24"),
  mutating("platform/Pools.ts", "faults/Pooler")('"search_path", ', ""),
  mutating("platform/Pools.ts", "sql/Database/Sessions")('statement_timeout: "0"', ""),
  mutating("service/Health.ts", "service/Health")("Effect.fail(unavailable())", "Effect.void"),
  mutating("work/Worker.ts", "work/Worker")("heartbeat(client), heartbeat(claims)]", "heartbeat(client)]"),
  mutating("sql/migrations/Migrations.ts", "project/Projects")("ANALYZE ${sql.literal(name)}", "SELECT"),
  mutating("operating/Lists.ts", "cli/lists")("limit: whole.limit + 1 }", "}"),
  mutating("secrets/SecretBox.ts", "secrets/SecretBox")("JSON.stringify(owner)", '"owner"'),
  preconditions("weak === undefined && ", ""),
  preconditions(", ${anyVersion} * ${version}::bigint", ""),
  conditions("match !== undefined && !includes(versionsOf(match), version)", "false"),
  conditions("noneMatch.replaceAll('W/\"', '\"')", "noneMatch"),
  signatures("`${id}.${timestampSeconds}.`", "`${timestampSeconds}.`"),
  signatures("Math.floor(now / 1000)", "now"),
  mutating("platform/Text.ts", "contract/Walk.bodies", "project/ProjectFile")(" || !text.isWellFormed()", ""),
  mutating("commands/Command.ts", "commands/CanonicalJson")(".toSorted()", ""),
  token("match[2] === checksum(text.slice(0, -6))", "match[2] !== undefined"),
  token('oneShotHash("sha256", text, "buffer")', 'oneShotHash("sha256", "", "buffer")'),
  mutating("outbound/Exchange.ts", "webhooks/address/Sender.answers")(
    "const framingLimit = 65_536",
    "const framingLimit = Infinity"
  ),
  mutating("outbound/Exchange.ts", "webhooks/address/Sender.answers")("maxInterim = 3", "maxInterim = 4"),
  mutating("outbound/Exchange.ts", "webhooks/address/Sender.connections")(": this.served > 0 &&", ": "),
  connections('"EMFILE", ', ""),
  mutating("webhooks/address/Addresses.ts", "webhooks/WebhookReads")("named.has(port) || ", ""),
  mutating("outbound/Exchange.ts", "outbound/Exchange")(
    "if (this.body.byteLength < this.read + chunk.byteLength) {",
    "if (this.read === 0) this.body = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength)\n    else {"
  ),
  mutating("webhooks/delivery/DeliveryLoop/Results.ts", "webhooks/delivery/DeliverRecovery")(
    "if (isUnsent(outcome)) return",
    "if (false) return"
  ),
  mutating("webhooks/address/Sender.ts", "webhooks/address/Sender.answers")("(keepAllowedAnswers ||", "(true ||"),
  mutating("http/edge/NodeServer.ts", "webhooks/WebhookReads")("yield* listensOn(listening.address.port)", ";"),
  mutating("outbound/Connections.ts", "webhooks/address/Sender.answers")("this.socket?.writableLength === 0", "true"),
  connections("performance.now() - this.openedAt < usedFor", "true"),
  connections(".get(origin)?.pop()", ".get(origin)?.shift()"),
  connections("this.size -= connections.length - others.length", "this.size -= 0"),
  mutating("service/Routes.ts", "contract/Walk")("literal.length > 0 ? literal : matching", "matching"),
  mutating("http/mcp/Tools.ts", "contract/Walk.tools")("pattern === withoutNull ? {} : ", ""),
  ending("expires_at > now() AND ", ""),
  ending("now() - interval '30 days'", "now() - interval '90 days'"),
  ending("lifetime > ${before} AND ", ""),
  ending(" AND expires_at - created_at > lifetime - interval '1 day'", ""),
  ending("!worker.isFirst() || ", ""),
  ending(" || now < logAt", ""),
  ending(".slice(0, maxNamed)", ""),
  mutating("http/path/Middleware.ts", "contract/Connections")(
    "last?.authorization === authorization",
    "last !== undefined"
  ),
  mutating("http/path/Middleware.ts", "contract/Changes")("now < verified.until", "true"),
  mutating("sql/Client.ts", "faults/Failover")("onStandby()", "true"),
  mutating("service/Health.ts", "faults/Failover")("takesWrites(mutations)", "Effect.void"),
  mutating("outbound/Connections.ts", "outbound/Names")("monotonicClock(yield* Clock.Clock)", "yield* Clock.Clock"),
  bearer('!credential.entitlements.includes("developer_api")', "false"),
  bearer("!credential.modules.includes(access.module)", "false"),
  bearer("!credential.membership", "false"),
  bearer("!credential.scopes.includes(access.scope)", "false"),
  credentials("entry.expiresAt <= now", "false"),
  credentials(
    "Math.min(until, monotonicMillis(clock) + expiresAt.getTime() - clock.currentTimeMillisUnsafe())",
    "until"
  ),
  credentials("AND k.revoked_at IS NULL", ""),
  hanging(credentials("const usageResolution = 60_000", "const usageResolution = 600_000")),
  keyReads('"850 millis"', '"8500 millis"'),
  keys("least(renewed.expires_at, ${graceEnd}::timestamptz)", "${graceEnd}::timestamptz"),
  keys("coalesce(revoked_at, ${now}::timestamptz)", "${now}::timestamptz"),
  keys("[...new Set(given.scopes)]", "[...given.scopes]"),
  keys("Duration.isGreaterThan(expiresIn, maxLifetime)", "false"),
  keys("WHERE ${member}::text IS NULL OR (SELECT active FROM member)", "WHERE true"),
  limits("${projectId}:${policy}:", "${policy}:"),
  buckets("allowed ? available - tokens : available", "available"),
  buckets("bucket.tokens + taken", "bucket.tokens", "contract/Batches"),
  buckets("allowed ? 1 : tokens - available", "1", "contract/Batches"),
  throttle("Math.min(tokens, bucket.limit)", "tokens", "contract/Batches"),
  throttle("Math.max(1, window, wholeSeconds(nextAfter))", "Math.max(1, window)", "contract/Batches"),
  throttle("Math.ceil(millis", "Math.floor(millis"),
  throttle("(left * windowSeconds) / limit", "windowSeconds"),
  throttle(": wholeSeconds(nextAfter)", ": 0"),
  mutating("sql/Columns.ts", "contract/Deals")("HH24:MI:SS.MS", "HH24:MI:SS"),
  hanging(keyReads(": readKnown(keyId)", ": readUnknown(keyId)")),
  keyReads("known ?? missing.get(keyId)", "known"),
  keyReads("capacity: maxWaiting", ""),
  hanging(mutating("sql/Database.ts", "sql/Database/Timeouts")("timeout - (performance.now() - arrivedAt)", "timeout")),
  batches("call.endsAt > longest.endsAt", "call.endsAt < longest.endsAt"),
  batches("if (!isScheduled) dispatch()", "", "sql/Batches"),
  batches(
    "if (isScheduled) return void arrived.push(call)\n    arrived = [call]",
    "arrived.push(call)\n    if (isScheduled) return",
    "sql/Batches"
  ),
  batches("if (sent > 0) lastWasOne = sent === 1", "lastWasOne = true", "sql/Batches"),
  mutating("commands/Grouped.ts", "commands/FairQueue")("&& own >= capacity / this.waiting.size", ""),
  mutating("platform/Ids.ts", "commands/FairQueue")("hash = Math.imul(hash ^ 0x10000, prime)", ""),
  mutating("secrets/SealedValues.ts", "cli/secrets")("opened.value.key === 0", "true"),
  mutating("platform/Formats.ts", "platform/Settings")("(?!0+[a-z])", ""),
  hanging(
    mutating("telemetry/Telemetry.ts", "deploy/Watch")(
      "if (Context.get(context, MetricsEnabled)) for",
      "if (false) for"
    )
  ),
  mutating("commands/Grouped.ts", "commands/FairQueue")("of [false, true]", "of [true, false]"),
  mutating("platform/Pools.ts", "sql/Database/Sessions")('default_transaction_isolation: "read committed",', ""),
  mutating("platform/Pools.ts", "sql/Database/Sessions")('idle_session_timeout: "0",', ""),
  mutating("cli/commands/doctor/Checks.ts", "cli/doctor")("fromPooler?.found !== true", "false"),
  mutating("cli/commands/doctor/Checks.ts", "cli/doctor")(
    "datcollversion IS DISTINCT FROM pg_database_collation_actual_version(oid)",
    "false"
  ),
  mutating("cli/commands/doctor/Checks.ts", "cli/doctor")("/lock timeout|statement timeout/.test(found)", "false"),
  mutating("cli/commands/doctor/Checks.ts", "faults/Disk")("isDiskFull(error)", "false"),
  mutating("operators/Troubles.ts", "cli/doctor")("total === 1", "total > 1"),
  mutating("operators/Troubles.ts", "console/Overview")("when(hung.length > 0,", "when(false,"),
  mutating("service/Metrics.ts", "service/Metrics")("undefined : (unansweredSince ?? begun)", "undefined : begun"),
  mutating("work/Worker.ts", "cli/doctor")('ORDER BY "startedAt", id`', "LIMIT 0`"),
  listening('|| !isLoopbackHost(request.headers["host"] ?? "")', ""),
  listening('request.headers["origin"] !== undefined || ', ""),
  listening("isRefused ? 401", "false ? 401"),
  listening("json && !isRefused", "json"),
  listening("oneLine(redactSecrets(", "(("),
  outbox("webhooks.enabled AND ", ""),
  outbox("AND event.type = ANY(webhooks.event_types)", "")
]
