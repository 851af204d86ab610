/** A case: the requests of its connections, the correct answers. */

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

export interface Case {
  /** Takes the cursors of the pages that a list reads. */
  readonly traffic: (cursors: ReadonlyArray<string | null>) => Traffic

  readonly status: 200 | 201
  readonly policy: "read" | "write"
  readonly etag?: RegExp
  /** Whether a next page exists. */
  readonly linked?: boolean
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
