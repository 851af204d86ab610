/** Page cursors (contract §6), in the service's format and with its key: each server accepts the other's cursors. */
import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto"
import { canonicalJson } from "./Mutations.ts"
import { Problem } from "./Problem.ts"

/** A record's place in the list. */
interface Place {
  readonly createdAt: Date
  readonly id: string
}

const macLength = 16
const timeLength = 6
const epoch = Date.parse("0001-01-01T00:00:00.000Z")

const invalid = () =>
  new Problem(400, "cursor_invalid", "The cursor does not belong to this list.", "Start again without a cursor.")

export const makeCursors = (secret: string) => {
  const key = new Uint8Array(hkdfSync("sha256", Buffer.from(secret, "base64"), "developer-api", "page cursors", 32))
  const mac = (list: ReadonlyArray<unknown>, body: Uint8Array) =>
    createHmac("sha256", key).update(canonicalJson(list)).update(body).digest().subarray(0, macLength)

  return {
    encode: (list: ReadonlyArray<unknown>, { createdAt, id }: { createdAt: Date; id: string }): string => {
      const head = Buffer.alloc(timeLength + 1)
      head.writeUIntBE(createdAt.getTime() - epoch, 0, timeLength)
      const body = Buffer.concat([head, Buffer.from(id, "utf8")])
      return Buffer.concat([mac(list, body), body]).toString("base64url")
    },

    decode: (list: ReadonlyArray<unknown>, cursor: string): Place => {
      const bytes = Buffer.from(cursor, "base64url")
      const body = bytes.subarray(macLength)
      if (body.length <= timeLength || bytes.toString("base64url") !== cursor) throw invalid()
      if (!timingSafeEqual(mac(list, body), bytes.subarray(0, macLength))) throw invalid()
      const createdAt = new Date(body.readUIntBE(0, timeLength) + epoch)
      return { createdAt, id: body.subarray(timeLength + 1).toString("utf8") }
    }
  }
}
