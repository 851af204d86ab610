/**
 * Page cursors: a position in a list, authenticated with HMAC-SHA-256 under a key derived from `SECRET_KEY`,
 * and bound to the project, operation and filters that it was made for.
 */
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { createHmac, timingSafeEqual } from "node:crypto"
import { deflateRawSync, inflateRawSync } from "node:zlib"
import type { ProjectId } from "../api/Ids.ts"
import { CursorInvalid } from "../api/Problems.ts"
import { canonicalJson } from "./CanonicalJson.ts"
import { SecretKey } from "./SecretKey.ts"

/** The last record of a page, in the order of every list: newest first, then by id. */
export interface Position {
  readonly createdAt: Date
  readonly id: string
}

/** The list that a cursor belongs to. An omitted filter is given as its default. */
export interface List {
  readonly projectId: ProjectId
  readonly operation: string
  readonly filters: Record<string, string>
}

/** 128 bits of the MAC: far beyond guessing, and short enough for the longest ids. */
const macLength = 16
const timeLength = 6

/** Plain text, or deflated: ids of 160 four-byte characters have to fit the 512 characters of a cursor. */
const format = { plain: 0, deflated: 1 } as const
const plainLimit = 340

export class Cursors extends Context.Service<
  Cursors,
  {
    readonly encode: (list: List, position: Position) => string
    readonly decode: (list: List, cursor: string) => Effect.Effect<Position, CursorInvalid>
  }
>()("developer-api/platform/Cursors") {
  static readonly layer = Layer.effect(
    Cursors,
    Effect.gen(function* () {
      const key = Redacted.value((yield* SecretKey).derive("page cursors"))
      const mac = (list: List, body: Uint8Array) =>
        createHmac("sha256", key)
          .update(canonicalJson([list.projectId, list.operation, list.filters]))
          .update(body)
          .digest()
          .subarray(0, macLength)

      const open = (list: List, cursor: string) => {
        const bytes = Buffer.from(cursor, "base64url")
        const body = bytes.subarray(macLength)
        // Base64 has several spellings of some bytes; only ours is taken.
        if (body.length <= timeLength || bytes.toString("base64url") !== cursor) return Option.none()
        return timingSafeEqual(mac(list, body), bytes.subarray(0, macLength)) ? Option.some(read(body)) : Option.none()
      }

      return {
        encode: (list, position) => {
          const body = write(position)
          return Buffer.concat([mac(list, body), body]).toString("base64url")
        },
        decode: (list, cursor) =>
          Effect.mapError(
            Effect.fromOption(open(list, cursor)),
            () =>
              new CursorInvalid({
                detail: "Start again without a cursor, or send the nextCursor of this list with the same filters."
              })
          )
      }
    })
  )
}

const write = ({ createdAt, id }: Position): Buffer => {
  const time = Buffer.alloc(timeLength + 1)
  time.writeUIntBE(createdAt.getTime(), 0, timeLength)
  const text = Buffer.from(id, "utf8")
  time.writeUInt8(text.length <= plainLimit ? format.plain : format.deflated, timeLength)
  return Buffer.concat([time, text.length <= plainLimit ? text : deflateRawSync(text)])
}

const read = (body: Buffer): Position => {
  const text = body.subarray(timeLength + 1)
  return {
    createdAt: new Date(body.readUIntBE(0, timeLength)),
    id: (body.readUInt8(timeLength) === format.plain ? text : inflateRawSync(text)).toString("utf8")
  }
}
