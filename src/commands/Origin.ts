/** Where a command comes from. It is stored with the command, so that operators find the command by the id of its request or trace. */
import type { Fiber } from "effect"
import { CurrentRequest } from "../platform/CurrentRequest.ts"
import { redactSecrets } from "../secrets/Redaction.ts"
import { currentSpan } from "../telemetry/TraceContext.ts"

/** The ids of the request, of its trace and of its key, and the operation. An operator's command has no request. */
export type Origin = readonly [
  requestId: string | null,
  traceId: string | null,
  keyId: string | null,
  operation: string
]

/** The column of `command` with the origin, and its parts in the order of the columns of `idempotency_keys`. */
export const originColumn = { origin: "text[]" }
export const originParts = "origin[1], origin[2], origin[3], origin[4]"

export const originOf = (fiber: Fiber.Fiber<unknown, unknown>, operation: string): Origin => {
  const { caller, id } = fiber.getRef(CurrentRequest)
  if (id === "") return [null, null, null, operation]
  return [redactSecrets(id), currentSpan(fiber.context)?.traceId ?? null, caller?.keyId ?? null, operation]
}
