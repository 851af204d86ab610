/** Reads JSON bodies. Their size is limited before they are read, and the number of their members before they are parsed (contract §1). */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { ByteSize, Effect, Layer } from "effect"
import { HttpServerRequest } from "effect/http"
import type { Readable } from "node:stream"
import { BodyTooLarge, MalformedJson, UnsupportedMediaType, ValidationFailed } from "../../api/Problems.ts"
import { type BodyLimits, usualBody } from "../../api/Requests.ts"
import type { CurrentRequestShape } from "../../platform/CurrentRequest.ts"
import { excessOf } from "./RequestFaults.ts"

/** Limits the bodies that other routes read. */
export const limit = Layer.succeed(HttpServerRequest.MaxBodySize, ByteSize.bytes(usualBody.bytes))

interface Json {
  readonly text: string
  /** The parsed text. Of members with the same name, it has the last. */
  readonly value: unknown
}

export type BodyProblem = BodyTooLarge | UnsupportedMediaType | MalformedJson | ValidationFailed

const tooLarge = ({ bytes }: BodyLimits) => new BodyTooLarge({ detail: BodyTooLarge.detail(bytes) })
const malformed = (detail: string) => new MalformedJson({ detail })

/**
 * Reads the body of a request. The time that the caller takes to send the body does not count towards the timeout of the
 * database statements.
 */
export const readBody = (
  request: HttpServerRequest.HttpServerRequest,
  current: CurrentRequestShape,
  limits: BodyLimits
): Effect.Effect<Json, BodyProblem> => {
  // Reads Node's own headers. Reading `request.headers` would copy them.
  const { headers } = NodeHttpServerRequest.toIncomingMessage(request)
  if (Number(headers["content-length"]) > limits.bytes) return Effect.fail(tooLarge(limits))
  if (!isJson(headers["content-type"])) {
    return Effect.fail(new UnsupportedMediaType())
  }
  if ((headers["content-encoding"] ?? "identity").toLowerCase() !== "identity") {
    return Effect.fail(new UnsupportedMediaType({ detail: "Send the body as it is, without a content-encoding." }))
  }
  const from = performance.now()
  const isDeclared = headers["content-length"] !== undefined && headers["expect"] === undefined
  const bytes = isDeclared
    ? readDeclared(NodeHttpServerRequest.toIncomingMessage(request))
    : readUndeclared(request, limits)
  return Effect.flatMap(bytes, (bytes) => {
    if (current.arrivedAt !== undefined) current.arrivedAt += performance.now() - from
    return parse(bytes, limits)
  })
}

const brokeOff = () => malformed("The body broke off.")

/**
 * Reads a body of declared length. Node's parser enforces the length. `request.arrayBuffer` is not used, because it would make a
 * fiber and a dozen listeners for each body.
 */
const readDeclared = (message: Readable): Effect.Effect<Uint8Array, MalformedJson> =>
  Effect.callback((resume) => {
    // The caller has closed the connection already, so no event follows.
    if (message.destroyed) return resume(Effect.fail(brokeOff()))
    const chunks: Array<Uint8Array> = []
    const onData = (chunk: Uint8Array) => void chunks.push(chunk)
    const onEnd = () => {
      stop()
      const [first, ...others] = chunks
      resume(Effect.succeed(first === undefined || others.length > 0 ? Buffer.concat(chunks) : first))
    }
    const onClose = () => {
      stop()
      resume(Effect.fail(brokeOff()))
    }
    const stop = () => message.off("data", onData).off("end", onEnd).off("close", onClose)
    message.on("data", onData).on("end", onEnd).on("close", onClose)
    return Effect.sync(stop)
  })

/** `request.arrayBuffer` counts the bytes, and answers `Expect: 100-continue`. */
const readUndeclared = (
  request: HttpServerRequest.HttpServerRequest,
  limits: BodyLimits
): Effect.Effect<Uint8Array, BodyTooLarge | MalformedJson> =>
  Effect.provideService(request.arrayBuffer, HttpServerRequest.MaxBodySize, ByteSize.bytes(limits.bytes)).pipe(
    Effect.mapBoth({
      onFailure: ({ reason }) =>
        reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge" ? tooLarge(limits) : brokeOff(),
      onSuccess: (bytes) => new Uint8Array(bytes)
    })
  )

/** `application/json` in any letter case, with any parameters. */
const isJson = (contentType: string | undefined) =>
  contentType === "application/json" || contentType?.split(";", 1)[0]?.trim().toLowerCase() === "application/json"

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const parse = (bytes: Uint8Array, limits: BodyLimits): Effect.Effect<Json, MalformedJson | ValidationFailed> => {
  try {
    const text = utf8.decode(bytes)
    const excess = excessOf(text, limits)
    if (excess !== undefined) {
      const [location, message] = excess
      return Effect.fail(new ValidationFailed({ errors: { [location]: [message] } }))
    }
    return Effect.succeed({ text, value: JSON.parse(text) })
  } catch (error) {
    if (bytes.byteLength === 0) return Effect.fail(malformed(MalformedJson.detail))
    return Effect.fail(malformed(error instanceof SyntaxError ? error.message : "The body is not UTF-8."))
  }
}
