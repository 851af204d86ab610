/**
 * Problems that operations share, declared on the endpoints as middleware so that the document and the client include
 * them. `server/RequestPath.ts` performs the corresponding checks, in the order of the contract (§1).
 */
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import {
  BodyTooLarge,
  Internal,
  MalformedJson,
  RateLimiterUnavailable,
  RateLimitExceeded,
  ServiceUnavailable,
  UnsupportedMediaType,
  ValidationFailed
} from "./Problems.ts"

/** Problems of every operation: its rate limit, the shape of its request, and failures of the service. */
export class Operation extends HttpApiMiddleware.Service<Operation>()("developer-api/api/Operation", {
  error: [RateLimitExceeded, RateLimiterUnavailable, ValidationFailed, Internal, ServiceUnavailable]
}) {}

/** Maximum size of a body, in bytes (contract §1). */
export const maxBodyBytes = 256 * 1024

/** Problems of an operation with a body: its size, its media type and its syntax. */
export class JsonBody extends HttpApiMiddleware.Service<JsonBody>()("developer-api/api/JsonBody", {
  error: [BodyTooLarge, UnsupportedMediaType, MalformedJson]
}) {}
