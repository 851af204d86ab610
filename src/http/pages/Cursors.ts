/**
 * Page cursors. A cursor is a position in a list. It is authenticated with HMAC-SHA-256 under a key derived from `SECRET_KEY`,
 * and is bound to the project, operation and filters of the list. Cursors made with `SECRET_KEY_PREVIOUS` are accepted, too.
 */
import { Array, Effect, Option, Redacted } from "effect"
import { createHmac, timingSafeEqual } from "node:crypto"
import type { ProjectId } from "../../api/schema/Ids.ts"
import { CursorInvalid } from "../../api/Problems.ts"
import { canonicalJson } from "../../commands/Command.ts"
import { SecretKey } from "../../secrets/SecretBox.ts"

/**
 * The position of a record in a list that is sorted by a time and an id. The time is the creation or, in a list in the order of
 * changes, the last change. A list that is sorted by id alone ignores it.
 */
export interface Position {
  readonly at: Date
  readonly id: string
  /** The time after which the list ends, if it has one. */
  readonly until?: Date | undefined
}

/** The list that a cursor belongs to. `filters` contains the defaults of omitted filters, unless these filter nothing. */
export interface List {
  readonly projectId: ProjectId
  readonly operation: string
  readonly filters: Readonly<Record<string, string | undefined>>
}

/** The MAC is cut to 16 bytes: an attacker can't guess 128 bits. */
const macLength = 16
const timeLength = 6
/**
 * Times are milliseconds since the year 1, so none is negative. 48 bits last until the year 8920. `lateBit` stands for the 49th
 * bit.
 */
const epoch = Date.parse("0001-01-01T00:00:00.000Z")
const timeRange = 2 ** (8 * timeLength)

/** Flags in the byte after the time: the time exceeds 48 bits; the end of the list follows, which never does. */
const lateBit = 2
const endBit = 4

export const makeCursors = Effect.gen(function* () {
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
    encode: (list: List, position: Position) => {
      const body = write(position)
      return Buffer.concat([macOf(current, list, body), body]).toString("base64url")
    },
    decode: (list: List, cursor: string) =>
      Effect.mapError(Effect.fromOption(open(list, cursor)), () => new CursorInvalid())
  }
})

const macOf = (key: Uint8Array, { filters, operation, projectId }: List, body: Uint8Array) =>
  createHmac("sha256", key)
    .update(canonicalJson([projectId, operation, filters]))
    .update(body)
    .digest()
    .subarray(0, macLength)

const write = ({ at, id, until }: Position): Buffer => {
  const head = Buffer.alloc(timeLength + 1)
  const end = Buffer.alloc(until === undefined ? 0 : timeLength)
  if (until !== undefined) end.writeUIntBE(until.getTime() - epoch, 0, timeLength)
  const time = at.getTime() - epoch
  head.writeUIntBE(time % timeRange, 0, timeLength)
  head.writeUInt8((time >= timeRange ? lateBit : 0) + (until === undefined ? 0 : endBit), timeLength)
  return Buffer.concat([head, end, Buffer.from(id, "utf8")])
}

const read = (body: Buffer): Position => {
  const flags = body.readUInt8(timeLength)
  const time = body.readUIntBE(0, timeLength) + ((flags & lateBit) === 0 ? 0 : timeRange)
  const [rest, hasEnd] = [timeLength + 1, (flags & endBit) !== 0]
  return {
    at: new Date(time + epoch),
    id: body.toString("utf8", hasEnd ? rest + timeLength : rest),
    ...(hasEnd ? { until: new Date(body.readUIntBE(rest, timeLength) + epoch) } : {})
  }
}
