/** A case: the requests of its connections, the correct answers, and the requests that both servers refuse. */
import type { PgClient } from "@effect/sql-pg"
import type { Effect } from "effect"
import type { SqlError } from "effect/sql"
import { randomUUID } from "node:crypto"

/** A request as autocannon and fetch both take it. */
export interface Request {
  readonly method: "GET" | "POST" | "PATCH"
  readonly path: string
  readonly headers: Record<string, string>
  readonly body?: string
}

export interface Answer {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: unknown
}

/** The records of the requests of a round. */
export interface Stock {
  /** Names the records that are made for this round alone. */
  readonly batch: string
  /** Of the pages that a list walks through; null is the first page. */
  readonly cursors: ReadonlyArray<string | null>
}

/** The requests of one connection, in sequence: the same over and over, or another each time. */
export type Traffic = ReadonlyArray<Request> | (() => Request)

/** The requests of some traffic, one by one. */
export const requestsOf = (traffic: Traffic): (() => Request) => {
  if (typeof traffic === "function") return traffic
  let sent = 0
  return () => {
    const request = traffic[sent++ % traffic.length]
    if (request === undefined) throw new Error("There is nothing to send")
    return request
  }
}

/** A request that is refused, and what the contract wants to be said of it. */
export interface Refusal {
  readonly request: Request
  /** In place of the right one. */
  readonly token?: string
  readonly status: number
  readonly code: string
  /** The location of a fault. */
  readonly locations?: ReadonlyArray<string>
  readonly currentVersion?: number
}

/** The columns that differ between the results of two equal commands. */
export const ownColumns = ["id", "created_at", "updated_at"]

export interface Case {
  /** By the number of the connection. The first requests of one connection say the same in every batch. */
  readonly traffic: (stock: Stock, connection: number) => Traffic
  /** Makes the records of a batch, by SQL. */
  readonly prepare?: (
    sql: PgClient.PgClient,
    batch: string,
    connections: number
  ) => Effect.Effect<unknown, SqlError.SqlError>

  readonly status: 200 | 201
  readonly policy: "read" | "write"
  readonly etag?: (request: Request) => string
  /** Whether the page has a next one. */
  readonly linked?: boolean
  /** Whether the answer repeats that of an earlier request. */
  readonly replayed?: boolean
  /** Throws unless a body is as it has to be. */
  readonly check: (body: unknown) => void

  /** A LIKE pattern that makes out its statement, among those that a server sends. */
  readonly statement: string
  /** The table of the one row that it writes. Where there is none, a request repeated gets the same answer. */
  readonly writes?: "clients" | "deals" | "notes"
  readonly refusals: ReadonlyArray<Refusal>
}

/** A request that changes something, with a new key unless one is given. */
export const command = (
  method: "POST" | "PATCH",
  path: string,
  body: object,
  key: string = `bench-${randomUUID()}`
): Request => ({
  method,
  path,
  headers: { "content-type": "application/json", "idempotency-key": key },
  body: JSON.stringify(body)
})
