/** A TCP proxy before PostgreSQL that reads the frontend's messages, and so knows every round trip and its SQL. */
import { Effect } from "effect"
import { connect, createServer, type Socket } from "node:net"

/** Ends of what PostgreSQL is asked to do before it answers: a simple query, or everything up to a Sync. */
export interface RoundTrip {
  /** The statements that it executes. */
  readonly statements: ReadonlyArray<string>
}

const protocol3 = 196_608

/** Reads the messages of one connection: https://www.postgresql.org/docs/current/protocol-message-formats.html */
export const reader = (onRoundTrip: (roundTrip: RoundTrip) => void) => {
  let pending = Buffer.alloc(0)
  let started = false
  const prepared = new Map<string, string>()
  const portals = new Map<string, string>()
  let statements: Array<string> = []

  const end = () => {
    onRoundTrip({ statements })
    statements = []
  }
  const message = (type: string, body: Buffer) => {
    const [first = "", second = ""] = body.toString("latin1").split("\0")
    switch (type) {
      case "P":
        return prepared.set(first, Buffer.from(second, "latin1").toString("utf8"))
      case "B":
        return portals.set(first, prepared.get(second) ?? "")
      case "E":
        return statements.push(portals.get(first) ?? "")
      case "Q":
        statements.push(Buffer.from(first, "latin1").toString("utf8"))
        return end()
      case "S":
        return end()
      default:
        return undefined
    }
  }

  return (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk])
    while (true) {
      // Until the startup message, which no type precedes, there may be one that asks for TLS.
      const head = started ? 1 : 0
      if (pending.length < head + 4) return
      const length = head + pending.readInt32BE(head)
      if (pending.length < length) return
      if (started) message(String.fromCharCode(pending.readUInt8(0)), pending.subarray(5, length))
      else started = pending.readInt32BE(4) === protocol3
      pending = pending.subarray(length)
    }
  }
}

/** Starts a proxy before the database of a URL. */
export const startWireProxy = Effect.fnUntraced(function* (databaseUrl: string) {
  const target = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  let roundTrips: Array<RoundTrip> = []

  const server = createServer((client) => {
    const database = connect({ host: target.hostname, port: Number(target.port || 5432) })
    const read = reader((roundTrip) => roundTrips.push(roundTrip))
    for (const socket of [client, database]) {
      sockets.add(socket)
      socket.on("close", () => sockets.delete(socket))
      // Either end may go first when the test is over.
      socket.on("error", () => socket.destroy())
    }
    client.on("data", read)
    client.pipe(database)
    database.pipe(client)
  })
  yield* Effect.callback<void, Error>((resume) => {
    server.once("error", (error) => resume(Effect.fail(error)))
    server.listen(0, "127.0.0.1", () => resume(Effect.void))
  }).pipe(Effect.orDie)
  yield* Effect.addFinalizer(() =>
    Effect.callback<void>((resume) => {
      server.close(() => resume(Effect.void))
      for (const socket of sockets) socket.destroy()
    })
  )

  const url = new URL(databaseUrl)
  const address = server.address()
  if (address === null || typeof address === "string") return yield* Effect.die(new Error("The proxy has no port"))
  url.hostname = "127.0.0.1"
  url.port = String(address.port)

  return {
    /** The database's URL through the proxy. */
    url: url.href,
    /** The round trips since the last call. */
    take: () => {
      const taken = roundTrips
      roundTrips = []
      return taken
    }
  }
})
