/** The body of a request, bounded before it is read and checked before it is parsed (contract §1). */
import { ByteSize, Effect, Layer } from "effect"
import { HttpServerRequest } from "effect/http"
import { BodyTooLarge, MalformedJson, UnsupportedMediaType, ValidationFailed } from "../api/Problems.ts"
import { JsonBody } from "../api/Requests.ts"
import { gather, type LocatedFault, pointer } from "./Locations.ts"
import { isUnsafe, unsafeMessage } from "../platform/UnsafeText.ts"

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
      const bytes = yield* Effect.mapError(request.arrayBuffer, (error) =>
        error.reason._tag === "RequestParseError" && error.reason.reason === "BodyTooLarge"
          ? tooLarge()
          : malformed("The body broke off.")
      )
      const [text, value] = yield* parse(bytes)
      // Escapes are the one way for such characters to be in a text that is valid UTF-8.
      if (text.includes("\\u")) {
        const faults = [...unsafeStrings(value, "body")]
        if (faults.length > 0) return yield* new ValidationFailed({ errors: gather(faults) })
      }
      return yield* operation
    })
  )
)

/** `application/json` in any letter case, with any parameters. */
const isJson = (contentType: string | undefined) =>
  contentType?.split(";", 1)[0]?.trim().toLowerCase() === "application/json"

const parse = (bytes: ArrayBuffer) =>
  Effect.try({
    try: () => {
      const text = utf8.decode(bytes)
      const value: unknown = JSON.parse(text)
      return [text, value] as const
    },
    catch: (error) => {
      if (bytes.byteLength === 0) return malformed("The body is empty.")
      return malformed(error instanceof SyntaxError ? error.message : "The body is not UTF-8.")
    }
  })

/** Every string and member name with a character that no string of this API holds. */
function* unsafeStrings(value: unknown, location: string): Generator<LocatedFault> {
  if (typeof value === "string") {
    if (isUnsafe(value)) yield [location, unsafeMessage]
  } else if (typeof value === "object" && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      if (isUnsafe(name)) yield [location, `has a member whose name ${unsafeMessage}`]
      else yield* unsafeStrings(member, `${location}/${pointer(name)}`)
    }
  }
}
