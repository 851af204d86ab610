/** Records, receipts and pages as the API answers them, with the headers that go with them. */
import { Context, Effect } from "effect"
import type { HttpServerRequest } from "effect/http"
import { HttpApiSchema } from "effect/http-api"
import { etag } from "../api/Fields.ts"
import { CurrentRequest } from "./CurrentRequest.ts"
import type { Outcome } from "./idempotency/Idempotency.ts"
import type { Page } from "./Pages.ts"

/** Where callers reach the service (`PUBLIC_URL`); undefined: wherever they sent the request to. */
export const PublicUrl = Context.Reference<string | undefined>("developer-api/platform/PublicUrl", {
  defaultValue: () => undefined
})

/** A record, with its version as `ETag`. */
export const recordAnswer = <Item extends { readonly version: number }>(item: Item) =>
  HttpApiSchema.withHeaders({ body: item, headers: { etag: etag(item.version) } })

/** The receipt of a command, with the version of the record that it left. */
export const receiptAnswer = ({ changed, replayed, resourceId, version }: Outcome) =>
  HttpApiSchema.withHeaders({
    body: { resourceId, changed },
    headers: { etag: etag(version), ...(replayed ? { "idempotent-replayed": "true" as const } : {}) }
  })

/** A page, with a link to the next one. */
export const pageAnswer = <Item>(request: HttpServerRequest.HttpServerRequest, page: Page<Item>) =>
  Effect.gen(function* () {
    if (page.nextCursor === null) return HttpApiSchema.withHeaders({ body: page, headers: {} })
    const origin = (yield* PublicUrl) ?? originOf(request.headers["host"])
    const next = nextTarget((yield* CurrentRequest).target, page.nextCursor)
    return HttpApiSchema.withHeaders({ body: page, headers: { link: `<${origin}${next}>; rel="next"` } })
  })

const nextTarget = (target: string, cursor: string) => {
  const { pathname, search, searchParams } = new URL(target, "http://localhost")
  searchParams.delete("cursor")
  const kept = searchParams.toString()
  return `${pathname}?${kept === "" || search === "" ? "" : `${kept}&`}cursor=${cursor}`
}

/** Where the caller sent the request; nothing for a Host that is no host, which makes the link relative (RFC 8288). */
const originOf = (host: string | undefined) =>
  host !== undefined && /^(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?$/.test(host) ? `http://${host}` : ""
