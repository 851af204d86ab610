/** The OpenAPI document, and the reference that is read in a browser. Neither asks another host for anything. */
import { Layer } from "effect"
import { HttpRouter, HttpServerResponse } from "effect/http"
import { HttpApiScalar, OpenApi } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { documented } from "../api/Document.ts"

/** `GET /openapi.json` and `GET /docs`, for a service that is reached at `publicUrl`. */
export const layer = (publicUrl: string) => {
  const api = documented(Api.annotate(OpenApi.Servers, [{ url: publicUrl }]))
  return Layer.mergeAll(
    HttpRouter.add("GET", "/openapi.json", HttpServerResponse.jsonUnsafe(OpenApi.fromApi(api))),
    HttpApiScalar.layer(api, {
      path: "/docs",
      scalar: { withDefaultFonts: false, authentication: { preferredSecurityScheme: "DeveloperBearer" } }
    })
  )
}
