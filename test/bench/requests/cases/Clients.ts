/** Clients: a record, a page, and a command that is new or replayed. */
import { Schema } from "effect"
import { randomUUID } from "node:crypto"
import { Client } from "../../../../src/api/crm/Clients.ts"
import { Receipt } from "../../../../src/api/Endpoints.ts"
import { type Case, command, type Request } from "../Case.ts"
import { clientCount, clientId, person } from "../Seed.ts"

const path = "/api/v1/developer/crm/clients"
const pageSize = 50

const getRequest = (id: string): Request => ({ method: "GET", path: `${path}/${id}`, headers: {} })

/** Requests a page of the list; the first page has no cursor. */
export const listRequest = (cursor: string | null): Request => ({
  method: "GET",
  path: `${path}?limit=${pageSize}${cursor === null ? "" : `&cursor=${cursor}`}`,
  headers: {}
})

/** Each client has an external id of its own. */
const createRequest = (i: number, key = `bench-${randomUUID()}`) =>
  command("POST", path, { ...person(i % 100_000), externalId: key }, key)

/** Commands that are run before they are replayed. */
export const replayRequests = Array.from({ length: 100 }, (_, i) => createRequest(i, `bench-replay-${i}`))

const strict = { onExcessProperty: "error", errors: "all" } as const
const decodeClient = Schema.decodeUnknownSync(Client, strict)
const decodePage = Schema.decodeUnknownSync(
  Schema.Struct({
    items: Schema.Array(Client).check(Schema.isBetweenLength(pageSize, pageSize)),
    nextCursor: Schema.NullOr(Schema.String)
  }),
  strict
)

/** Decodes the receipt of a command that changed something. */
export const decodeReceipt = Schema.decodeUnknownSync(
  Schema.Struct({ ...Receipt.fields, changed: Schema.Literal(true) }),
  strict
)

/** Returns the cursor of the next page; null on the last page. */
export const nextCursor = (body: unknown): string | null => decodePage(body).nextCursor

const firstVersion = /^"1"$/

/** Clients whose first version is read. All others are patched. */
const readCount = 200
const seeded = (i: number) => clientId((i * 7919) % clientCount)

export const get: Case = {
  traffic: () => Array.from({ length: readCount }, (_, i) => getRequest(seeded(i))),
  status: 200,
  policy: "read",
  etag: firstVersion,
  check: decodeClient
}

export const list: Case = {
  traffic: (cursors) => cursors.map(listRequest),
  status: 200,
  policy: "read",
  linked: true,
  check: decodePage
}

export const create: Case = {
  traffic: () => {
    let sent = 0
    return () => createRequest(sent++)
  },
  status: 201,
  policy: "write",
  etag: firstVersion,
  check: decodeReceipt,
  differing: ["id", "external_id", "created_at", "updated_at"]
}

const round = randomUUID()
let connections = 0
const patchedCount = 190

/** Each connection patches clients of its own in turn. */
export const patch: Case = {
  traffic: () => {
    const own = patchedCount * connections++
    let sent = 0
    return () => {
      const id = seeded(readCount + ((own + (sent % patchedCount)) % (clientCount - readCount)))
      const body = { lastName: `Lovelace ${round} ${sent++}`, email: `ada.lovelace.${sent}@example.com` }
      return command("PATCH", `${path}/${id}`, body, `bench-${randomUUID()}`)
    }
  },
  status: 200,
  policy: "write",
  etag: /^"[0-9]+"$/,
  check: decodeReceipt,
  differing: ["id", "external_id", "created_at", "updated_at", "display_name", "phone", "tags", "version"]
}

export const replay: Case = {
  traffic: () => replayRequests,
  status: 201,
  policy: "write",
  etag: firstVersion,
  replayed: true,
  check: decodeReceipt
}
