/**
 * The OpenAPI document and the interactive reference. Neither makes a browser send a request to another host. Each is
 * made at its first request: most processes are never asked for them, and the reference holds megabytes of script.
 */
import { Effect, Scope } from "effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as HttpApiScalar from "effect/http-api/HttpApiScalar"
import * as OpenApi from "effect/http-api/OpenApi"
import { Api } from "../api/Api.ts"
import { documented } from "../api/Document.ts"

/** `GET /openapi.json` and `GET /docs`, for a service that is reached at `publicUrl`. */
export const layer = (publicUrl: string) =>
  HttpRouter.use((router) =>
    Effect.gen(function* () {
      const scope = yield* Effect.scope
      const api = yield* Effect.cached(
        Effect.sync(() => documented(Api.annotate(OpenApi.Servers, [{ url: publicUrl }])))
      )
      const document = yield* Effect.cached(
        Effect.map(api, (api) => HttpServerResponse.jsonUnsafe(OpenApi.fromApi(api)))
      )
      const reference = yield* Effect.cached(
        Effect.flatMap(api, (api) =>
          HttpRouter.toHttpEffect(HttpApiScalar.layer(api, { path: "/docs", scalar })).pipe(
            Effect.provideService(Scope.Scope, scope)
          )
        )
      )
      yield* router.add("GET", "/openapi.json", document)
      yield* router.add("GET", "/docs", Effect.flatten(reference))
    })
  )

const scalar = { withDefaultFonts: false, authentication: { preferredSecurityScheme: "DeveloperBearer" } }
