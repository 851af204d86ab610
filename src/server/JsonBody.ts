/** The body of a request, bounded before it is read and checked before it is parsed (contract §1). */
import { ByteSize, Effect, Layer } from "effect"
import { HttpServerRequest } from "effect/http"
import { BodyTooLarge, MalformedJson, UnsupportedMediaType } from "../api/Problems.ts"
import { JsonBody } from "../api/Requests.ts"

const maxBodySize = ByteSize.kibibytes(256)
const maxBytes = ByteSize.toNumberUnsafe(maxBodySize)

/** Stops a body whose length nobody declared. */
export const limit = Layer.succeed(HttpServerRequest.MaxBodySize, maxBodySize)

const tooLarge = () => new BodyTooLarge({ detail: `A body has at most ${maxBytes} bytes.` })
const malformed = (detail: string) => new MalformedJson({ detail })

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

export const layer = Layer.succeed(
  JsonBody,
  JsonBody.of(
    Effect.fnUntraced(function* (operation) {
      const request = yield* HttpServerRequest.HttpServerRequest
      if (Number(request.headers["content-length"]) > maxBytes) return yield* tooLarge()
      if (!isJson(request.headers["content-type"])) {
        return yield* new UnsupportedMediaType({ detail: "Send the body as `content-type: application/json`." })
      }
      if ((request.headers["content-encoding"] ?? "identity").toLowerCase() !== "identity") {
        return yield* new UnsupportedMediaType({ detail: "Send the body as it is, without a content-encoding." })
      }
      const bytes = yield* Effect.mapError(request.arrayBuffer, (error) =>
        error.reason._tag === "RequestParseError" && error.reason.reason === "BodyTooLarge"
          ? tooLarge()
          : malformed("The body broke off.")
      )
      yield* wellFormed(bytes)
      return yield* operation
    })
  )
)

/** `application/json` in any letter case, with any parameters. */
const isJson = (contentType: string | undefined) =>
  contentType?.split(";", 1)[0]?.trim().toLowerCase() === "application/json"

const wellFormed = (bytes: ArrayBuffer) =>
  Effect.try({
    try: (): unknown => JSON.parse(utf8.decode(bytes)),
    catch: (error) => {
      if (bytes.byteLength === 0) return malformed("The body is empty.")
      return malformed(error instanceof SyntaxError ? error.message : "The body is not UTF-8.")
    }
  })
