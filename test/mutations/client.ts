/** Mutations of `src/client`. */
import { mutating } from "./Mutation.ts"

const attempts = mutating("client/Attempts.ts", "client/Attempts", "client/Attempts.time")
const webhooks = mutating("client/Webhooks.ts", "client/Webhooks")

export const client = [
  attempts("status === 429 || status === 503", "status === 503"),
  attempts("now + wait > end", "false"),
  attempts("Math.max(backoff, askedDelay(outcome, now))", "backoff"),
  attempts('"idempotency-key" in headers ||', "true ||"),
  attempts(", longestDelay)", ", Infinity)"),
  attempts("retries >= times", "retries > times"),
  webhooks("if (age > tolerance)", "if (false)"),
  webhooks("if (-age > tolerance)", "if (false)"),
  webhooks("if (!fits)", "if (false)"),
  webhooks("isOfSomeType(body) && !isKnown(body.type)", "false"),
  webhooks("fatal: true", "fatal: false"),
  webhooks('.replaceAll("-", "+")', ""),
  webhooks("`${id}.${timestamp}.`", "`${timestamp}.`"),
  mutating(
    "client/Problem.ts",
    "client/PromiseClient",
    "client/Requests"
  )('?.startsWith("application/problem+json") !== true', " === undefined")
]
