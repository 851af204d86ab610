/** Records, receipts and pages as the API answers them, with the headers that go with them. */
import { Context, Effect } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { etag } from "../api/Fields.ts"
import type { Receipt } from "../api/Idempotency.ts"
import { CurrentRequest } from "./CurrentRequest.ts"
import type { Outcome } from "./idempotency/Idempotency.ts"
import type { Page } from "./Pages.ts"

/** Where callers reach the service (`PUBLIC_URL`); undefined: wherever they sent the request to. */
export const PublicUrl = Context.Reference<string | undefined>("developer-api/platform/PublicUrl", {
  defaultValue: () => undefined
})

/**
 * The bodies are already what the wire carries, in types of the contract: serialising them as they are, without a walk
 * through their schema, halves the cost of a list. The contract's tests decode every answer.
 */
export const jsonAnswer = (status: 200 | 201, body: object, headers: Readonly<Record<string, string>> = {}) =>
  HttpServerResponse.text(JSON.stringify(body), { status, contentType: "application/json", headers })

/** A record, with its version as `ETag`. */
export const recordAnswer = <Item extends { readonly version: number }>(item: Item) =>
  jsonAnswer(200, item, { etag: etag(item.version) })

/** The receipt of a command, with the version of the record that it left, where that has one. */
export const receiptAnswer = (status: 200 | 201, outcome: Omit<Outcome<unknown>, "returned">, more?: object) => {
  const { changed, replayed, resourceId, version } = outcome
  return jsonAnswer(status, { resourceId, changed, ...more } satisfies Receipt, {
    ...(version === null ? {} : { etag: etag(version) }),
    ...(replayed ? { "idempotent-replayed": "true" } : {})
  })
}

/** A page, with a link to the next one. */
export const pageAnswer = <Item>(request: HttpServerRequest.HttpServerRequest, page: Page<Item>) =>
  Effect.gen(function* () {
    if (page.nextCursor === null) return jsonAnswer(200, page, {})
    const origin = (yield* PublicUrl) ?? originOf(request.headers["host"])
    const next = nextTarget((yield* CurrentRequest).target, page.nextCursor)
    return jsonAnswer(200, page, { link: `<${origin}${next}>; rel="next"` })
  })

/** The path stays as it was sent: a URL parser would take an id of dots for a step up. */
const nextTarget = (target: string, cursor: string) => {
  const [path = "", ...rest] = target.split("?")
  const query = new URLSearchParams(rest.join("?"))
  query.delete("cursor")
  query.append("cursor", cursor)
  return `${path.replace(notInPath, encodeURIComponent)}?${query}`
}

/** Characters that no path of a URI holds (RFC 3986, appendix A), though HTTP servers take them. */
const notInPath = /[^\x21-\x7E]|[#<>"\\^`{|}]/g

/** Where the caller sent the request; nothing for a Host that is no host, which makes the link relative (RFC 8288). */
const originOf = (host: string | undefined) =>
  host !== undefined && /^(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?$/.test(host) ? `http://${host}` : ""
