/**
 * What holds for every operation, as middleware that the endpoints declare and the server implements.
 * They run in the order of the contract's checks:
 * `Answers` → `Authentication` → `RateLimited` → `JsonBody` → `RequestShape` → decoding → handler.
 * An operation with a body adds `RequestShape` and `JsonBody`, in this order; the others are added to the whole Api.
 */
import { HttpApiMiddleware } from "effect/http-api"
import { Principal } from "./Authentication.ts"
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

/** Tells every fault of path, query, header and body at once. */
export class RequestShape extends HttpApiMiddleware.Service<RequestShape>()("developer-api/api/RequestShape", {
  error: ValidationFailed
}) {}

/** Bounds, reads and parses the body before anything looks at it. For operations that take a body. */
export class JsonBody extends HttpApiMiddleware.Service<JsonBody>()("developer-api/api/JsonBody", {
  error: [BodyTooLarge, UnsupportedMediaType, MalformedJson]
}) {}

/** Takes one token from the project's bucket of the operation's policy. */
export class RateLimited extends HttpApiMiddleware.Service<RateLimited, { requires: Principal }>()(
  "developer-api/api/RateLimited",
  { error: [RateLimitExceeded, RateLimiterUnavailable] }
) {}

/** Renders the problems of an operation; around it the server turns what nobody expected into `internal`. */
export class Answers extends HttpApiMiddleware.Service<Answers>()("developer-api/api/Answers", {
  error: [Internal, ServiceUnavailable]
}) {}
