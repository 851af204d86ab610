/**
 * Answers that do not change while the process runs. Each is compressed once for each requested encoding, and has an ETag for
 * conditional requests.
 */
import { Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { createHash } from "node:crypto"
import { promisify } from "node:util"
import { brotliCompress, constants, gzip } from "node:zlib"

export interface Fixed {
  readonly body: Uint8Array
  readonly contentType: string
  readonly headers?: Readonly<Record<string, string>>
}

type Encoding = "br" | "gzip" | "identity"

/** Quality 11, the default, takes seconds for a few megabytes. Quality 6 takes a tenth of the time for a tenth more bytes. */
const brotliOptions = { params: { [constants.BROTLI_PARAM_QUALITY]: 6 } }
const compress = {
  br: (body: Uint8Array) => promisify(brotliCompress)(body, brotliOptions),
  gzip: (body: Uint8Array) => promisify(gzip)(body),
  identity: (body: Uint8Array) => Promise.resolve(body)
} satisfies Record<Encoding, (body: Uint8Array) => Promise<Uint8Array>>

/**
 * Runs `make` at the first request. All requests wait for the same run, which goes on when their callers leave: anyone may ask for a
 * document, and some take seconds to make. A run that has failed is repeated at the next request.
 */
const once = <A>(make: Effect.Effect<A>): Effect.Effect<A> => {
  let made: Promise<A> | undefined
  return Effect.promise(
    () =>
      (made ??= Effect.runPromise(make).catch((error: unknown) => {
        made = undefined
        throw error
      }))
  )
}

/** `make` runs once, unless it fails. */
export const fixedAnswer = (make: Effect.Effect<Fixed>) => {
  const fixed = once(make)
  const encoded = (encoding: Encoding) =>
    once(
      Effect.gen(function* () {
        const { body, contentType, headers } = yield* fixed
        const bytes = yield* Effect.promise(() => compress[encoding](body))
        const etag = `"${createHash("sha256").update(bytes).digest("base64url").slice(0, 22)}"`
        const common = {
          etag,
          vary: "accept-encoding",
          // A cache may store the answer, but must revalidate it each time, because the next version of the service has
          // another body.
          "cache-control": "no-cache",
          "x-content-type-options": "nosniff",
          ...headers
        }
        const coding = encoding === "identity" ? {} : { "content-encoding": encoding }
        return {
          etag,
          whole: HttpServerResponse.uint8Array(bytes, { contentType, headers: { ...common, ...coding } }),
          unchanged: HttpServerResponse.empty({ status: 304, headers: common })
        }
      })
    )
  const answers = { br: encoded("br"), gzip: encoded("gzip"), identity: encoded("identity") }
  return Effect.flatMap(HttpServerRequest.HttpServerRequest, ({ headers }) =>
    Effect.map(answers[encodingFor(headers["accept-encoding"])], ({ etag, unchanged, whole }) =>
      matches(headers["if-none-match"], etag) ? unchanged : whole
    )
  )
}

/** Returns the first of `br` and `gzip` that a request accepts, otherwise `identity` (RFC 9110, section 12.5.3). */
const encodingFor = (accepted: string | undefined): Encoding => {
  const codings = new Set(
    (accepted ?? "").split(",").flatMap((item) => {
      const [coding = "", weight = ""] = item.split(";")
      return /^\s*q=0(?:\.0*)?\s*$/i.test(weight) ? [] : [coding.trim().toLowerCase()]
    })
  )
  return codings.has("br") ? "br" : codings.has("gzip") ? "gzip" : "identity"
}

const matches = (condition: string | undefined, etag: string): boolean =>
  condition !== undefined &&
  condition.split(",").some((item) => item.trim() === "*" || item.trim().replace(/^W\//, "") === etag)
