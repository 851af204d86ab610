/** Makes the bodies and headers of successful answers: records, receipts of commands, and pages. */
import { Context, Effect, type Fiber } from "effect"
import type { HttpServerRequest } from "effect/http"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import { etag } from "../../api/schema/Fields.ts"
import { CurrentRequest } from "../../platform/CurrentRequest.ts"
import type { Outcome } from "../../commands/Command.ts"
import type { Page } from "../pages/Pages.ts"

/** The base URL of links in answers (`PUBLIC_URL`). Undefined: the base is taken from the `Host` of each request. */
export const PublicUrl = Context.Reference<string | undefined>("developer-api/platform/PublicUrl", {
  defaultValue: () => undefined
})

/** The outcomes of the items of a batch, and whether all of them are those of earlier requests. */
export interface Batched<Result> {
  readonly results: ReadonlyArray<Result>
  readonly replayed: boolean
}

export const batchAnswer = <Result>({ replayed, results }: Batched<Result>) =>
  HttpApiSchema.withHeaders({ body: { results }, headers: replayHeader(replayed) })

export const recordAnswer = <Item extends { readonly version: number }>(item: Item) =>
  HttpApiSchema.withHeaders({ body: item, headers: { etag: etag(item.version) } })

type Applied = Omit<Outcome<unknown>, "returned">

interface ReplayHeader {
  readonly "idempotent-replayed"?: "true"
}

export const replayHeader = (replayed: boolean): ReplayHeader => (replayed ? { "idempotent-replayed": "true" } : {})

export const unversionedReceiptAnswer = (outcome: Applied) =>
  HttpApiSchema.withHeaders({
    body: { resourceId: outcome.resourceId, changed: outcome.changed },
    headers: replayHeader(outcome.replayed)
  })

export const receiptAnswer = (outcome: Applied) => receiptWith(outcome, {})

export const receiptWith = <More extends object>(outcome: Applied, more: More) => {
  const { changed, resourceId, version } = outcome
  if (version === null) throw new Error("The outcome of a command on a versioned record has no version")
  return HttpApiSchema.withHeaders({
    body: { resourceId, changed, ...more },
    headers: { etag: etag(version), ...replayHeader(outcome.replayed) }
  })
}

/** The receipt of an upsert, which has created its record exactly if the record is now at its first version by a change. */
export const upsertAnswer = (outcome: Applied) =>
  Object.assign(receiptAnswer(outcome), { status: hasCreated(outcome) ? 201 : 200 })

export const hasCreated = ({ changed, version }: Applied): boolean => changed && version === 1

interface LinkHeader {
  readonly link?: string
}

export const pageAnswer = <Item>(page: Page<Item>, request: HttpServerRequest.HttpServerRequest) =>
  Effect.withFiber((fiber) => Effect.succeed(pageWith(page, linkTo(page.nextCursor, request, fiber))))

const pageWith = <Item>(body: Page<Item>, headers: LinkHeader) => HttpApiSchema.withHeaders({ body, headers })

const linkTo = (
  cursor: string | null,
  { headers }: HttpServerRequest.HttpServerRequest,
  fiber: Fiber.Fiber<unknown, unknown>
): LinkHeader => {
  if (cursor === null) return {}
  const origin = fiber.getRef(PublicUrl) ?? originOf(headers["host"])
  return { link: `<${origin}${nextTarget(fiber.getRef(CurrentRequest).target, cursor)}>; rel="next"` }
}

/** Sets the cursor in a request target. The target is not parsed as a URL, because a parser would resolve an id such as `..`. */
const nextTarget = (target: string, cursor: string) => {
  const [path = "", ...rest] = target.split("?")
  const query = new URLSearchParams(rest.join("?"))
  query.delete("cursor")
  query.append("cursor", cursor)
  return `${path.replace(notInPath, encodeURIComponent)}?${query}`
}

/** Characters that HTTP servers accept in a path although a URI must not contain them (RFC 3986, appendix A). */
const notInPath = /[^\x21-\x7E]|[#<>"\\^`{|}]/g

/** Returns the origin of a `Host` header. It is empty for a malformed header, so that the link is relative (RFC 8288). */
const originOf = (host: string | undefined) =>
  host !== undefined && /^(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]+)?$/.test(host) ? `http://${host}` : ""
