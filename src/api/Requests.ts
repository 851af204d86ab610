/**
 * The middleware of all operations, beside `Authentication`, with the problems that it answers. The layers are in `server/`. A
 * request passes them from the outermost to the innermost, in the order of the contract's checks (§1): `Operation`,
 * `Authentication`, `RequestShape`, `JsonBody`.
 */
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import {
  BodyTooLarge,
  HeadersTooLarge,
  Internal,
  MalformedJson,
  RequestTimeout,
  ServiceUnavailable,
  UnsupportedMediaType,
  ValidationFailed
} from "./Problems.ts"

/** Renders the problems of an operation. Failures of the service are its own; two are of a connection, before any operation. */
export class Operation extends HttpApiMiddleware.Service<Operation>()("developer-api/api/Operation", {
  error: [RequestTimeout, HeadersTooLarge, Internal, ServiceUnavailable]
}) {}

/** Refuses a request that does not have the shape of its operation. */
export class RequestShape extends HttpApiMiddleware.Service<RequestShape>()("developer-api/api/RequestShape", {
  error: ValidationFailed
}) {}

/** Maximum size of a body, in bytes (contract §1). */
export const maxBodyBytes = 256 * 1024

/** Reads the body of an operation that takes one: its size, its media type, its syntax and its shape. */
export class JsonBody extends HttpApiMiddleware.Service<JsonBody>()("developer-api/api/JsonBody", {
  error: [BodyTooLarge, UnsupportedMediaType, MalformedJson, ValidationFailed]
}) {}
