/** Mutations of `src/client`. */
import { hanging, mutating } from "./Mutation.ts"

const retries = mutating("client/Retries.ts", "client/Retries", "client/Retries.time")
const sync = mutating("client/Sync.ts", "client/Sync")
const webhooks = mutating("client/Webhooks.ts", "client/Webhooks")
const signature = mutating("client/Signature.ts", "client/Webhooks")

export const client = [
  sync("left > 0 && results.some(isUnavailable)", "false"),
  sync("ids.has(item.externalId)", "false"),
  sync("(versions.get(id) ?? former.get(id) ?? 0) >= version", "false"),
  sync(" ?? former.get(id)", ""),
  sync("newest - begin > overlap", "false"),
  sync("`${prefix}-${index}`", "`${prefix}-${Math.random()}`"),
  mutating("client/Signature.ts", "client/Sync")("?? 0) > version", "?? 0) >= version"),
  mutating("client/Signature.ts", "client/Sync")(": Number.MAX_SAFE_INTEGER", ": 1"),
  mutating("client/Signature.ts", "client/Sync")("(running.get(record) ?? Promise.resolve())", "Promise.resolve()"),
  retries("[rateLimited, 502, 503, 504]", "[502, 503, 504]"),
  hanging(retries("(yield* monotonicMillis) + wait > end", "false")),
  retries("askedDelay(outcome, yield* Clock.currentTimeMillis) + backoff", "backoff"),
  retries('"idempotency-key" in headers ||', "true ||"),
  retries(", longestDelay)", ", Infinity)"),
  retries("retries >= most", "retries > most"),
  retries("isRateLimited(outcome) ? Infinity : ", ""),
  mutating("client/Retries.ts", "client/PromiseClient")("Effect.mapError(explain),", ""),
  mutating("client/DeveloperApi.ts", "client/Requests")(
    "Headers.fromInput(request.headers)",
    "Headers.fromRecordUnsafe({ ...request.headers })"
  ),
  mutating("client/DeveloperApi.ts", "client/PromiseClient")('.replace(/\\/api\\/v1\\/developer\\/?$/, "")', ""),
  signature("if (age > tolerance)", "if (false)"),
  signature("if (-age > tolerance)", "if (false)"),
  signature("if (!given.some(", "if (false && !given.some("),
  webhooks('WebhookInvalid("type_unknown"', 'WebhookInvalid("body_invalid"'),
  webhooks("decode(complete(body))", "decode(body)"),
  mutating("client/Webhooks.ts", "client/Webhooks")(" && !SchemaAST.isOptional(type)", ""),
  signature("fatal: true", "fatal: false"),
  signature("isErased(event) ? {", 'event.type === "" ? {'),
  signature('.replaceAll("-", "+")', ""),
  signature("`${id}.${timestamp}.`", "`${timestamp}.`"),
  mutating(
    "client/Problem.ts",
    "client/PromiseClient",
    "client/Requests"
  )('?.startsWith("application/problem+json") !== true', " === undefined")
]
