/** Reads JSON bodies. The size is limited before reading, depth and entries are measured before parsing (contract §1). */
import { ByteSize, Effect, Layer } from "effect"
import { HttpServerRequest } from "effect/http"
import { BodyTooLarge, MalformedJson, UnsupportedMediaType } from "../api/Problems.ts"
import type { CurrentRequestShape } from "../platform/CurrentRequest.ts"
import { extentOf, type JsonExtent, maxDepth } from "./JsonExtent.ts"

const maxBodySize = ByteSize.kibibytes(256)
const maxBytes = ByteSize.toNumberUnsafe(maxBodySize)

/** Limits a body of undeclared length while it is read. */
export const limit = Layer.succeed(HttpServerRequest.MaxBodySize, maxBodySize)

/** A parsed body; `value` is undefined for one that is nested too deeply to be parsed. */
export interface Body {
  readonly text: string
  readonly extent: JsonExtent
  readonly value: unknown
}

type BodyProblem = BodyTooLarge | UnsupportedMediaType | MalformedJson

const tooLarge = () => new BodyTooLarge({ detail: `A body has at most ${maxBytes} bytes.` })
const malformed = (detail: string) => new MalformedJson({ detail })

/** Reads the body of a request. The time in which it arrives is the caller's, so it is not taken from that of the answer. */
export const readBody = (
  request: HttpServerRequest.HttpServerRequest,
  current: CurrentRequestShape
): Effect.Effect<Body, BodyProblem> => {
  const { headers } = request
  if (Number(headers["content-length"]) > maxBytes) return Effect.fail(tooLarge())
  if (!isJson(headers["content-type"])) {
    return Effect.fail(new UnsupportedMediaType({ detail: "Send the body as `content-type: application/json`." }))
  }
  if ((headers["content-encoding"] ?? "identity").toLowerCase() !== "identity") {
    return Effect.fail(new UnsupportedMediaType({ detail: "Send the body as it is, without a content-encoding." }))
  }
  const from = performance.now()
  return Effect.matchEffect(request.arrayBuffer, {
    onFailure: ({ reason }) =>
      Effect.fail(
        reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge"
          ? tooLarge()
          : malformed("The body broke off.")
      ),
    onSuccess: (bytes) => {
      if (current.arrivedAt !== undefined) current.arrivedAt += performance.now() - from
      return parse(bytes)
    }
  })
}

/** `application/json` in any letter case, with any parameters. */
const isJson = (contentType: string | undefined) =>
  contentType === "application/json" || contentType?.split(";", 1)[0]?.trim().toLowerCase() === "application/json"

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const parse = (bytes: ArrayBuffer): Effect.Effect<Body, MalformedJson> => {
  try {
    const text = utf8.decode(bytes)
    const extent = extentOf(text)
    return Effect.succeed({ text, extent, value: extent.depth > maxDepth ? undefined : JSON.parse(text) })
  } catch (error) {
    if (bytes.byteLength === 0) return Effect.fail(malformed("The body is empty."))
    return Effect.fail(malformed(error instanceof SyntaxError ? error.message : "The body is not UTF-8."))
  }
}
