/** The id of a request: the caller's `x-request-id` where it is well formed, else a new UUID. */
import { Context } from "effect"
import { randomUUID } from "node:crypto"

/** Empty outside of a request. */
export const RequestId = Context.Reference<string>("developer-api/platform/RequestId", { defaultValue: () => "" })

const wellFormed = /^[A-Za-z0-9._-]{1,128}$/

export const requestIdOf = (header: string | undefined): string =>
  header !== undefined && wellFormed.test(header) ? header : randomUUID()
