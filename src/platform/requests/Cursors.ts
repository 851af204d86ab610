/**
 * Page cursors. A cursor is a position in a list. It is authenticated with HMAC-SHA-256 under a key derived from `SECRET_KEY`,
 * and is bound to the project, operation and filters of the list. Cursors made with `SECRET_KEY_PREVIOUS` are accepted, too.
 */
import { Array, Context, Effect, Layer, Option, Redacted } from "effect"
import { createHash, createHmac, timingSafeEqual } from "node:crypto"
import { details } from "../../api/Details.ts"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { CursorInvalid } from "../../api/Problems.ts"
import { canonicalJson } from "../CanonicalJson.ts"
import { SecretKey } from "../secrets/SecretKey.ts"

/**
 * The position of a record in a list by time of creation and id, descending. In a list by id alone, `createdAt` has no meaning.
 */
export interface Position {
  readonly createdAt: Date
  readonly id: string
}

/** The position in a cursor. An id that is too long is replaced by its first characters and its SHA-256. */
export type Place = Position | { readonly createdAt: Date; readonly idStart: string; readonly idDigest: Uint8Array }

/** The list that a cursor belongs to. `filters` contains the default of each filter that the request omits. */
export interface List {
  readonly projectId: ProjectId
  readonly operation: string
  readonly filters: Record<string, string>
}

/** The MAC is cut to 16 bytes, so that a cursor has more room for a long id. An attacker can't guess 128 bits. */
const macLength = 16
const timeLength = 6
/**
 * Times are milliseconds since the year 1, so none is negative. 48 bits last until the year 8920. `lateBit` stands for the 49th
 * bit.
 */
const epoch = Date.parse("0001-01-01T00:00:00.000Z")
const timeRange = 2 ** (8 * timeLength)

/**
 * Maximum size in bytes of an id that is not cut. A cursor has up to 512 characters of base64url (384 bytes), an id up to 640
 * bytes.
 */
const longestId = 384 - macLength - timeLength - 1
const digestLength = 32
/** Flags in the byte after the time: the time exceeds 48 bits; the id is cut. */
const lateBit = 2
const cutBit = 4

export class Cursors extends Context.Service<
  Cursors,
  {
    readonly encode: (list: List, position: Position) => string
    readonly decode: (list: List, cursor: string) => Effect.Effect<Place, CursorInvalid>
  }
>()("developer-api/platform/requests/Cursors") {
  static readonly layer = Layer.effect(
    Cursors,
    Effect.gen(function* () {
      const [current, ...previous] = Array.map((yield* SecretKey).deriveAll("page cursors"), Redacted.value)
      const keys = [current, ...previous]

      const open = (list: List, cursor: string) => {
        const bytes = Buffer.from(cursor, "base64url")
        const body = bytes.subarray(macLength)
        // The same bytes can be written in base64 in several ways. Only the canonical one is accepted.
        if (body.length <= timeLength || bytes.toString("base64url") !== cursor) return Option.none()
        const isAuthentic = keys.some((key) => timingSafeEqual(macOf(key, list, body), bytes.subarray(0, macLength)))
        return isAuthentic ? Option.some(read(body)) : Option.none()
      }

      return {
        encode: (list, position) => {
          const body = write(position)
          return Buffer.concat([macOf(current, list, body), body]).toString("base64url")
        },
        decode: (list, cursor) =>
          Effect.mapError(
            Effect.fromOption(open(list, cursor)),
            () =>
              new CursorInvalid({
                detail: details.cursor_invalid
              })
          )
      }
    })
  )
}

const macOf = (key: Uint8Array, { filters, operation, projectId }: List, body: Uint8Array) =>
  createHmac("sha256", key)
    .update(canonicalJson([projectId, operation, filters]))
    .update(body)
    .digest()
    .subarray(0, macLength)

const write = ({ createdAt, id }: Position): Buffer => {
  const head = Buffer.alloc(timeLength + 1)
  const time = createdAt.getTime() - epoch
  const text = Buffer.from(id, "utf8")
  const isLong = text.length > longestId
  head.writeUIntBE(time % timeRange, 0, timeLength)
  head.writeUInt8((time >= timeRange ? lateBit : 0) | (isLong ? cutBit : 0), timeLength)
  if (!isLong) return Buffer.concat([head, text])
  return Buffer.concat([head, createHash("sha256").update(text).digest(), startOf(text, longestId - digestLength)])
}

/** Returns the start of a UTF-8 text: at most `length` bytes, without a partial character. */
const startOf = (text: Buffer, length: number): Buffer => {
  let end = length
  while (((text[end] ?? 0) & 0xc0) === 0x80) end--
  return text.subarray(0, end)
}

const read = (body: Buffer): Place => {
  const bits = body.readUInt8(timeLength)
  const time = body.readUIntBE(0, timeLength) + ((bits & lateBit) === 0 ? 0 : timeRange)
  const createdAt = new Date(time + epoch)
  const rest = body.subarray(timeLength + 1)
  if ((bits & cutBit) === 0) return { createdAt, id: rest.toString("utf8") }
  const idStart = rest.subarray(digestLength).toString("utf8")
  return { createdAt, idStart, idDigest: rest.subarray(0, digestLength) }
}
