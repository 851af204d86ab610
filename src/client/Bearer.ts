/** The bearer token of every request. */
import type { Layer, Redacted } from "effect"
import { HttpClientRequest } from "effect/http"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import { Authentication } from "../api/Authentication.ts"

/**
 * Adds `Authorization: Bearer <token>` to each request of a client of `Api`. `DeveloperApi` includes it; use it for
 * clients that you make with `HttpApiClient`.
 */
export const bearerLayer = (
  token: string | Redacted.Redacted
): Layer.Layer<HttpApiMiddleware.ForClient<Authentication>> =>
  HttpApiMiddleware.layerClient(Authentication, ({ next, request }) =>
    next(HttpClientRequest.bearerToken(request, token))
  )
