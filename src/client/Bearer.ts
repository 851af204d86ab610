/** The token, on every request. */
import type { Layer, Redacted } from "effect"
import { HttpClientRequest } from "effect/http"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import { Authentication } from "../api/Authentication.ts"

/**
 * Sends `Authorization: Bearer <token>` with each request of a client that is made of `Api`. `DeveloperApi` has it
 * already; it is for clients that you make with `HttpApiClient` yourself.
 */
export const bearerLayer = (
  token: string | Redacted.Redacted
): Layer.Layer<HttpApiMiddleware.ForClient<Authentication>> =>
  HttpApiMiddleware.layerClient(Authentication, ({ next, request }) =>
    next(HttpClientRequest.bearerToken(request, token))
  )
