/** A case: the requests of its connections, the correct answers. */
import type { PgClient } from "@effect/sql-pg"
import type { Effect } from "effect"
import type { SqlError } from "effect/sql"
import { randomUUID } from "node:crypto"

/** A request in the form that autocannon and fetch both accept. */
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
  /** Names the records that are created for this round. */
  readonly batch: string
  /** Cursors of the pages that a list reads; null is the first page. */
  readonly cursors: ReadonlyArray<string | null>
}

/** The requests of one connection, in sequence: a list that repeats, or a new request each time. */
export type Traffic = ReadonlyArray<Request> | (() => Request)

/** Returns a function that returns the requests of some traffic one by one. */
export const requestsOf = (traffic: Traffic): (() => Request) => {
  if (typeof traffic === "function") return traffic
  let sent = 0
  return () => {
    const request = traffic[sent++ % traffic.length]
    if (request === undefined) throw new Error("There is nothing to send")
    return request
  }
}

/** The columns that differ between the results of two equal commands. */
export const ownColumns = ["id", "created_at", "updated_at"]

export interface Case {
  /** Takes the number of the connection. The first requests of a connection are the same in every batch. */
  readonly traffic: (stock: Stock, connection: number) => Traffic
  /** Creates the records of a batch by SQL. */
  readonly prepare?: (
    sql: PgClient.PgClient,
    batch: string,
    connections: number
  ) => Effect.Effect<unknown, SqlError.SqlError>

  readonly status: 200 | 201
  readonly policy: "read" | "write"
  readonly etag?: (request: Request) => string
  /** Whether a next page exists. */
  readonly linked?: boolean
  /** Whether the answer repeats that of an earlier request. */
  readonly replayed?: boolean
  /** Throws unless a body is correct. */
  readonly check: (body: unknown) => void

  /** The table of the row that the request writes. Without it, a repeated request gets the same answer. */
  readonly writes?: "clients"
}

/** Creates a request of a mutation, with a new key unless one is given. */
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
