/** The measured cases: the requests of their connections, and the correct answers. */
import { Schema } from "effect"
import { randomUUID } from "node:crypto"
import { Client } from "../../../src/api/crm/Clients.ts"
import { Receipt } from "../../../src/api/Endpoints.ts"
import { clientCount, clientId, person } from "./Seed.ts"

/** A request in the form that autocannon and fetch both accept. */
export interface Request {
  readonly method: "GET" | "POST" | "PATCH"
  readonly path: string
  readonly headers: Record<string, string>
  readonly body?: string
}

/** The requests of one connection, in sequence: a list that repeats, or a new request each time. */
type Traffic = ReadonlyArray<Request> | (() => Request)

export interface Case {
  /** Takes the cursors of the pages that a list reads. */
  readonly traffic: (cursors: ReadonlyArray<string | null>) => Traffic
  readonly status: 200 | 201
  readonly etag: RegExp
  /** Whether the answer repeats that of an earlier request. */
  readonly replayed?: boolean
  /** Throws unless a body is correct. */
  readonly check: (body: unknown) => void
  /** Of a command: the columns that differ between the rows of two equal ones. A repeated read gets the same answer. */
  readonly differing?: ReadonlyArray<string>
}

/** Creates a request of a mutation. */
export const command = (method: "POST" | "PATCH", path: string, body: object, key: string): Request => ({
  method,
  path,
  headers: { "content-type": "application/json", "idempotency-key": key },
  body: JSON.stringify(body)
})

export const clients = "/api/v1/developer/crm/clients"
const pageSize = 50

const read = (path: string): Request => ({ method: "GET", path, headers: {} })

/** Requests a page of the list; the first page has no cursor. */
export const listRequest = (cursor: string | null) =>
  read(`${clients}?limit=${pageSize}${cursor === null ? "" : `&cursor=${cursor}`}`)

/** Each client has an external id of its own. */
const createRequest = (i: number, key = `bench-${randomUUID()}`) =>
  command("POST", clients, { ...person(i % 100_000), externalId: key }, key)

/** Commands that are run before they are replayed. */
export const replayRequests = Array.from({ length: 100 }, (_, i) => createRequest(i, `bench-replay-${i}`))

const strict = { onExcessProperty: "error", errors: "all" } as const
const Items = Schema.Array(Client).check(Schema.isBetweenLength(pageSize, pageSize))
export const decodePage = Schema.decodeUnknownSync(
  Schema.Struct({ items: Items, nextCursor: Schema.NullOr(Schema.String) }),
  strict
)

/** Decodes the receipt of a command that changed something. */
export const decodeReceipt = Schema.decodeUnknownSync(
  Schema.Struct({ ...Receipt.fields, changed: Schema.Literal(true) }),
  strict
)

/** Clients whose first version is read. All others are patched, each connection its own in turn. */
const readCount = 200
const patchedCount = 190
const seeded = (i: number) => `${clients}/${clientId((i * 7919) % clientCount)}`

const firstVersion = /^"1"$/
const differing = ["id", "external_id", "created_at", "updated_at"]
const round = randomUUID()
let connections = 0

/** The figures of a round. */
export const fields = ["requestsPerSecond", "p50", "p95", "p99", "cpuMicros", "promoted", "loadBusy"] as const

export const caseNames = ["get", "list", "create", "patch", "replay"] as const
export type CaseName = (typeof caseNames)[number]

export const cases: Record<CaseName, Case> = {
  get: {
    traffic: () => Array.from({ length: readCount }, (_, i) => read(seeded(i))),
    status: 200,
    etag: firstVersion,
    check: Schema.decodeUnknownSync(Client, strict)
  },
  list: { traffic: (cursors) => cursors.map(listRequest), status: 200, etag: /^$/, check: decodePage },
  create: {
    traffic: () => {
      let sent = 0
      return () => createRequest(sent++)
    },
    status: 201,
    etag: firstVersion,
    check: decodeReceipt,
    differing
  },
  patch: {
    traffic: () => {
      const own = patchedCount * connections++
      let sent = 0
      return () => {
        const path = seeded(readCount + ((own + (sent % patchedCount)) % (clientCount - readCount)))
        const body = { lastName: `Lovelace ${round} ${sent++}`, email: `ada.lovelace.${sent}@example.com` }
        return command("PATCH", path, body, `bench-${randomUUID()}`)
      }
    },
    status: 200,
    etag: /^"[0-9]+"$/,
    check: decodeReceipt,
    differing: [...differing, "display_name", "phone", "tags", "version"]
  },
  replay: { traffic: () => replayRequests, status: 201, etag: firstVersion, replayed: true, check: decodeReceipt }
}

/** Returns a function that returns the requests of a new connection one by one. */
export const requestsOf = ({ traffic }: Case, cursors: ReadonlyArray<string | null>): (() => Request) => {
  const requests = traffic(cursors)
  if (typeof requests === "function") return requests
  let sent = 0
  return () => requests[sent++ % requests.length] ?? listRequest(null)
}
