/** Records, receipts and pages as the API answers them, with the headers that go with them. */
import { Context, Effect } from "effect"
import type { HttpServerRequest } from "effect/http"
import { HttpApiSchema } from "effect/http-api"
import { etag } from "../api/Fields.ts"
import type { Outcome } from "./idempotency/Idempotency.ts"
import type { Page } from "./Pages.ts"

/** Where callers reach the service (`PUBLIC_URL`); undefined: wherever they sent the request to. */
export const PublicUrl = Context.Reference<string | undefined>("developer-api/platform/PublicUrl", {
  defaultValue: () => undefined
})

/** A record, with its version as `ETag`. */
export const recordAnswer = <Item extends { readonly version: number }>(item: Item) =>
  HttpApiSchema.withHeaders({ body: item, headers: { etag: etag(item.version) } })

/** The receipt of a command on a record that has versions. */
export const receiptAnswer = ({ changed, replayed, resourceId, version }: Outcome) =>
  HttpApiSchema.withHeaders({
    body: { resourceId, changed },
    headers: { etag: etag(version ?? 0), ...(replayed ? { "idempotent-replayed": "true" as const } : {}) }
  })

/** A page, with a link to the next one. */
export const pageAnswer = <Item>(request: HttpServerRequest.HttpServerRequest, page: Page<Item>) =>
  Effect.map(PublicUrl, (publicUrl) =>
    HttpApiSchema.withHeaders({
      body: page,
      headers: page.nextCursor === null ? {} : { link: `<${nextUrl(request, publicUrl, page.nextCursor)}>; rel="next"` }
    })
  )

const nextUrl = (request: HttpServerRequest.HttpServerRequest, publicUrl: string | undefined, cursor: string) => {
  const url = new URL(request.originalUrl, "http://localhost")
  url.searchParams.set("cursor", cursor)
  return (publicUrl ?? url.origin) + url.pathname + url.search
}
