/**
 * Reads JSON bodies (contract §1). Their size is limited before they are read, and the number of their members before they are parsed.
 * The faults that depend on no schema bound the work of decoding: nesting too deep, too many entries, unsafe characters (U+0000,
 * unpaired surrogates).
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { ByteSize, Effect, Layer } from "effect"
import { HttpServerRequest } from "effect/http"
import type { Readable } from "node:stream"
import { type LocatedFault, locationOf, maxFaults } from "../../api/schema/Faults.ts"
import { BodyTooLarge, MalformedJson, UnsupportedMediaType, ValidationFailed } from "../../api/Problems.ts"
import { type BodyLimits, usualBody } from "../../api/Requests.ts"
import { isUnsafe, unsafeMessage } from "../../platform/Text.ts"
import type { CurrentRequestShape } from "../../platform/CurrentRequest.ts"

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

/** Reads the body of a request. The time that it takes to arrive does not count towards the timeout of the database. */
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

/** Reads a body of declared length, which Node's parser enforces, without the fiber and listeners of `request.arrayBuffer`. */
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

const maxDepth = 32

/** Maximum number of entries of one list or object. No list of the API takes more. */
const maxEntries = 1_000

const tooMany = (limits: BodyLimits, counted: "entries" | "members"): LocatedFault => [
  "body",
  `must have at most ${limits[counted]} ${counted} in all`
]

/**
 * Counts the members and entries of a JSON text, and returns a fault if there are too many. Such a text is not parsed, because each new
 * name of a member costs the parser about 2 µs. In a text of the usual size, entries are counted only after it is parsed.
 */
export const excessOf = (text: string, limits: BodyLimits): LocatedFault | undefined => {
  // A member has at least five characters, with its comma.
  if (text.length < 5 * limits.members) return undefined
  const maxEntries = text.length > usualBody.bytes ? limits.entries : Infinity
  let [entries, members] = [0, 0]
  for (let i = 0; i < text.length; i++) {
    const character = text.charCodeAt(i)
    if (character === quote) {
      do i = text.indexOf('"', i + 1)
      while (i > 0 && isEscaped(text, i))
      if (i < 0) return undefined
    } else if (character === colon) {
      if (++members > limits.members) return tooMany(limits, "members")
    } else if (character === comma || character === bracket || character === brace) {
      if (++entries > maxEntries) return tooMany(limits, "entries")
    }
  }
  return undefined
}

const [quote, colon, comma, bracket, brace, backslash] = [34, 58, 44, 91, 123, 92]

const isEscaped = (text: string, at: number): boolean => {
  let from = at
  while (text.charCodeAt(from - 1) === backslash) from--
  return (at - from) % 2 === 1
}

export interface Body {
  readonly value: unknown
  readonly faults: ReadonlyArray<LocatedFault>
  /** Whether the body is small enough to be decoded. If it is not, that is its only fault. */
  readonly isDecodable: boolean
}

interface Walk {
  readonly path: Array<string | number>
  readonly faults: Array<LocatedFault>
  readonly limits: BodyLimits
  entries: number
  excess: LocatedFault | undefined
}

export const checkBody = (value: unknown, limits: BodyLimits): Body => {
  const walk: Walk = { path: [], faults: [], limits, entries: 0, excess: undefined }
  visit(value, walk)
  const { excess, faults } = walk
  return { value, faults: excess === undefined ? faults : [excess], isDecodable: excess === undefined }
}

/** The nesting, which is checked on the way, bounds the recursion. */
const visit = (value: unknown, walk: Walk): void => {
  if (typeof value === "string") {
    if (isUnsafe(value)) report(walk, unsafeMessage)
  } else if (Array.isArray(value)) {
    enter(value.length, walk)
    for (let i = 0; i < value.length && walk.excess === undefined; i++) visitEntry(i, value[i], walk)
  } else if (typeof value === "object" && value !== null) {
    const names = Object.keys(value)
    enter(names.length, walk)
    for (let i = 0; i < names.length && walk.excess === undefined; i++) {
      const name = names[i] ?? ""
      if (isUnsafe(name)) report(walk, `has a member whose name ${unsafeMessage}`)
      else visitEntry(name, Reflect.get(value, name), walk)
    }
  }
}

const visitEntry = (name: string | number, value: unknown, walk: Walk): void => {
  walk.path.push(name)
  visit(value, walk)
  walk.path.pop()
}

const enter = (entries: number, walk: Walk): void => {
  walk.entries += entries
  if (walk.path.length >= maxDepth) walk.excess = ["body", `must not be nested deeper than ${maxDepth} levels`]
  else if (entries > maxEntries)
    walk.excess = [locationOf("body", walk.path), `must have at most ${maxEntries} entries`]
  else if (walk.entries > walk.limits.entries) walk.excess = tooMany(walk.limits, "entries")
}

const report = ({ faults, path }: Walk, message: string): void => {
  if (faults.length <= maxFaults) faults.push([locationOf("body", path), message])
}
