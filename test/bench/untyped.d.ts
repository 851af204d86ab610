/** The parts of two untyped packages that the benchmarks use. */

declare module "pg" {
  type Config = Readonly<Record<string, string | number | boolean>>
  interface Query {
    readonly name: string
    readonly text: string
    readonly values: ReadonlyArray<unknown>
  }
  class Pool {
    constructor(config: Config)
    query<Row>(query: Query): Promise<{ readonly rows: ReadonlyArray<Row> }>
    on(event: "error", listener: (error: Error) => void): this
  }
  class Client {
    constructor(config: Config)
    connect(): Promise<void>
    query(text: string): Promise<unknown>
    on(event: "notification", listener: () => void): this
  }
  const pg: {
    readonly Client: typeof Client
    readonly Pool: typeof Pool
    readonly types: {
      readonly builtins: { readonly TIMESTAMP: number }
      readonly setTypeParser: (oid: number, parse: (text: string) => unknown) => void
    }
  }
  export default pg
  export type { Pool }
}

declare module "autocannon" {
  import type { EventEmitter } from "node:events"

  namespace autocannon {
    interface Request {
      method?: "GET" | "POST" | "PATCH"
      path?: string
      headers?: Record<string, string>
      body?: string
      setupRequest?: (request: Request) => Request
    }
    interface Options {
      readonly url: string
      readonly connections: number
      readonly duration: number
      readonly setupClient: (client: Client) => void
    }
    interface Client {
      setRequests(requests: ReadonlyArray<Request>): void
    }
    interface Result {
      readonly errors: number
      readonly timeouts: number
      readonly non2xx: number
      readonly resets: number
    }
  }
  function autocannon(
    options: autocannon.Options,
    done: (error: Error | null, result: autocannon.Result) => void
  ): EventEmitter<{ response: [client: unknown, status: number, bytes: number, millis: number] }>
  export default autocannon
}
