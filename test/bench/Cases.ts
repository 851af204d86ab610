/** What is measured: the requests of each case, and what a right answer is. */
import { Schema } from "effect"
import { randomUUID } from "node:crypto"
import { Client } from "../../src/api/crm/Clients.ts"
import { Receipt } from "../../src/api/Idempotency.ts"

export const cases = ["get", "list", "create", "replay"] as const
export type Case = (typeof cases)[number]

/** Seeded clients. */
export const clientCount = 10_000
/** Commands that were run before, for replays. */
export const replayCount = 100
/** Pages that the list walks through, over and over. */
export const pageCount = 20

export const pageSize = 50

/** A request as autocannon and fetch both take it. */
export interface Request {
  readonly method: "GET" | "POST"
  readonly path: string
  readonly headers: Record<string, string>
  readonly body?: string
}

const path = "/api/v1/developer/crm/clients"

export const clientId = (i: number): string => `cli_seed_${String(i).padStart(5, "0")}`

const person = (i: number) => ({
  displayName: `Ada Lovelace ${i}`,
  firstName: "Ada",
  lastName: `Lovelace ${i}`,
  email: `ada.lovelace.${i}@example.com`,
  phone: `+4420718${String(i).padStart(5, "0")}`,
  tags: ["newsletter", "vip", `cohort-${i % 50}`],
  externalId: `crm-${i}`
})

/** The clients of the project file, a minute apart. */
export const seed = Array.from({ length: clientCount }, (_, i) => ({
  id: clientId(i),
  ...person(i),
  createdAt: new Date(Date.UTC(2026, 0, 1) + i * 60_000).toISOString()
}))

export const get = (i: number): Request => ({ method: "GET", path: `${path}/${clientId(i)}`, headers: {} })

/** A page of the walk; its first has no cursor. */
export const list = (cursor: string | null): Request => ({
  method: "GET",
  path: `${path}?limit=${pageSize}${cursor === null ? "" : `&cursor=${cursor}`}`,
  headers: {}
})

const post = (i: number, key: string): Request => ({
  method: "POST",
  path,
  headers: { "content-type": "application/json", "idempotency-key": key },
  body: JSON.stringify(person(i % 100_000))
})

let created = 0
/** A create under a key that nobody used. */
export const create = (): Request => post(created++, `bench-${randomUUID()}`)

/** One of the commands that were run before. */
export const replay = (i: number): Request => post(i, `bench-replay-${i}`)

export interface Answer {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: unknown
}

const strict = { onExcessProperty: "error", errors: "all" } as const
const decodeClient = Schema.decodeUnknownSync(Client, strict)
const decodePage = Schema.decodeUnknownSync(
  Schema.Struct({ items: Schema.Array(Client), nextCursor: Schema.NullOr(Schema.String) }),
  strict
)
const decodeReceipt = Schema.decodeUnknownSync(Receipt, strict)
const decodeProblem = Schema.decodeUnknownSync(Schema.Struct({ code: Schema.String }))

const policies: Record<Case, string> = { get: "read", list: "read", create: "write", replay: "write" }

/** Everything that an answer lacks. */
export const faultsOf = (name: Case, { body, headers, status }: Answer): ReadonlyArray<string> => {
  const faults: Array<string> = []
  const expect = (what: string, is: unknown, wanted: unknown) => {
    if (is !== wanted) faults.push(`${name}: ${what} is ${JSON.stringify(is)}, not ${JSON.stringify(wanted)}`)
  }
  expect("status", status, name === "get" || name === "list" ? 200 : 201)
  expect("content-type", headers["content-type"]?.split(";")[0], "application/json")
  expect("ratelimit-policy", headers["ratelimit-policy"]?.split(";")[0], `"${policies[name]}"`)
  expect("ratelimit", headers["ratelimit"] === undefined, false)
  expect("x-request-id", headers["x-request-id"]?.length, 36)
  expect("link", headers["link"] !== undefined, name === "list")
  expect("etag", headers["etag"], name === "list" ? undefined : '"1"')
  expect("idempotent-replayed", headers["idempotent-replayed"], name === "replay" ? "true" : undefined)
  try {
    if (name === "get") decodeClient(body)
    else if (name === "list") expect("length", decodePage(body).items.length, pageSize)
    else expect("changed", decodeReceipt(body).changed, true)
  } catch (error) {
    faults.push(`${name}: ${String(error)}`)
  }
  return faults
}

/** The address of the next page, where there is one. */
export const nextCursor = ({ body }: Answer): string | null => decodePage(body).nextCursor

/** The record that a command was about. */
export const resourceId = ({ body }: Answer): string => decodeReceipt(body).resourceId

/** The code of a problem. */
export const codeOf = ({ body }: Answer): string => decodeProblem(body).code
