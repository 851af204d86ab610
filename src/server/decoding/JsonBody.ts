/** Reads JSON bodies. Limits the size before reading, and measures depth and entries before parsing (contract §1). */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { ByteSize, Effect, Layer } from "effect"
import { HttpServerRequest } from "effect/http"
import type { Readable } from "node:stream"
import { detailOf, details } from "../../api/Details.ts"
import { BodyTooLarge, MalformedJson, UnsupportedMediaType } from "../../api/Problems.ts"
import { maxBodyBytes } from "../../api/Requests.ts"
import type { LocatedFault } from "../../api/schema/Locations.ts"
import type { CurrentRequestShape } from "../../platform/CurrentRequest.ts"
import { extentOf, type JsonExtent, maxDepth } from "./JsonExtent.ts"
import { lossesOf } from "./JsonLosses.ts"

/** Limits a body of undeclared length while it is read. */
export const limit = Layer.succeed(HttpServerRequest.MaxBodySize, ByteSize.bytes(maxBodyBytes))

/**
 * A parsed body. `value` is undefined if the nesting is too deep. If a list or an object is too long, `value` lacks its surplus
 * entries. `bodyFaults` reports both.
 */
export interface Body {
  readonly text: string
  readonly extent: JsonExtent
  readonly value: unknown
  /** Faults for what parsing has lost (repeated members, fractions), with locations in `value`. */
  readonly losses: ReadonlyArray<LocatedFault>
}

export type BodyProblem = BodyTooLarge | UnsupportedMediaType | MalformedJson

const tooLarge = () => new BodyTooLarge({ detail: detailOf.body_too_large(maxBodyBytes) })
const malformed = (detail: string) => new MalformedJson({ detail })

/**
 * Reads the body of a request. `maximum` is the permitted nesting. The time that the caller takes to send the body does not
 * count towards the timeout of the database statements.
 */
export const readBody = (
  request: HttpServerRequest.HttpServerRequest,
  current: CurrentRequestShape,
  maximum = maxDepth
): Effect.Effect<Body, BodyProblem> => {
  // Reads Node's own headers. Reading `request.headers` would copy them.
  const { headers } = NodeHttpServerRequest.toIncomingMessage(request)
  if (Number(headers["content-length"]) > maxBodyBytes) return Effect.fail(tooLarge())
  if (!isJson(headers["content-type"])) {
    return Effect.fail(new UnsupportedMediaType({ detail: details.unsupported_media_type }))
  }
  if ((headers["content-encoding"] ?? "identity").toLowerCase() !== "identity") {
    return Effect.fail(new UnsupportedMediaType({ detail: "Send the body as it is, without a content-encoding." }))
  }
  const from = performance.now()
  const isDeclared = headers["content-length"] !== undefined && headers["expect"] === undefined
  const bytes = isDeclared ? readDeclared(NodeHttpServerRequest.toIncomingMessage(request)) : readUndeclared(request)
  return Effect.flatMap(bytes, (bytes) => {
    if (current.arrivedAt !== undefined) current.arrivedAt += performance.now() - from
    return parse(bytes, maximum)
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
  request: HttpServerRequest.HttpServerRequest
): Effect.Effect<Uint8Array, BodyTooLarge | MalformedJson> =>
  Effect.mapBoth(request.arrayBuffer, {
    onFailure: ({ reason }) =>
      reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge" ? tooLarge() : brokeOff(),
    onSuccess: (bytes) => new Uint8Array(bytes)
  })

/** `application/json` in any letter case, with any parameters. */
const isJson = (contentType: string | undefined) =>
  contentType === "application/json" || contentType?.split(";", 1)[0]?.trim().toLowerCase() === "application/json"

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })

const parse = (bytes: Uint8Array, maximum: number): Effect.Effect<Body, MalformedJson> => {
  try {
    const text = utf8.decode(bytes)
    const extent = extentOf(text, maximum)
    if (extent.depth > maximum) return Effect.succeed({ text, extent, value: undefined, losses: [] })
    const value: unknown = JSON.parse(extent.excerpt)
    return Effect.succeed({ text, extent, value, losses: lossesOf(text, extent, value) })
  } catch (error) {
    if (bytes.byteLength === 0) return Effect.fail(malformed(details.malformed_json))
    return Effect.fail(malformed(error instanceof SyntaxError ? error.message : "The body is not UTF-8."))
  }
}
