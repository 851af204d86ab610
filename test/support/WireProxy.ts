/**
 * A TCP proxy before PostgreSQL that reads the messages, and so knows every round trip and its SQL. It can hold one up,
 * for a test to say what becomes of it.
 */
import { Effect } from "effect"
import { connect, createServer, type Socket } from "node:net"

/** Ends of what PostgreSQL is asked to do before it answers: a simple query, or everything up to a Sync. */
export interface RoundTrip {
  /** The statements that it executes. */
  readonly statements: ReadonlyArray<string>
}

/** A round trip that has not reached PostgreSQL. Whatever becomes of it, its connection carries nothing any more. */
export interface Held {
  /** The process id of the backend that it is for. */
  readonly backend: number
  /** It reaches PostgreSQL, but its answer does not come back. Done once it has been answered, or never will be. */
  readonly pass: () => Promise<void>
  /** Half of it reaches PostgreSQL. */
  readonly tear: () => Promise<void>
}

/** Holds up the round trips in which a statement matches. */
export interface Gate {
  /** Whether one is held up whose client still waits. */
  readonly isWaiting: () => boolean
  /** One whose client still waits: the oldest, or the next that comes. */
  readonly next: () => Promise<Held>
  /** Holds nothing up any more. What it has held is lost with its connection, since nobody may wait for it by now. */
  readonly open: () => void
}

interface Holding extends Gate {
  readonly pattern: RegExp
  readonly hold: (held: Held, client: Socket) => void
}

const protocol3 = 196_608

/** Cuts what one side sends into messages: https://www.postgresql.org/docs/current/protocol-message-formats.html */
const messages = (side: "client" | "database", onMessage: (type: string, body: Buffer) => void) => {
  let pending = Buffer.alloc(0)
  let started = side === "database"
  return (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk])
    while (true) {
      // Until the startup message, which no type precedes, there may be one that asks for TLS.
      const head = started ? 1 : 0
      if (pending.length < head + 4) return
      const length = head + pending.readInt32BE(head)
      if (pending.length < length) return
      if (started) onMessage(String.fromCharCode(pending.readUInt8(0)), pending.subarray(5, length))
      else started = pending.readInt32BE(4) === protocol3
      pending = pending.subarray(length)
    }
  }
}

/** Reads the round trips of one connection. */
export const reader = (onRoundTrip: (roundTrip: RoundTrip) => void) => {
  const prepared = new Map<string, string>()
  const portals = new Map<string, string>()
  let statements: Array<string> = []

  const end = () => {
    onRoundTrip({ statements })
    statements = []
  }
  return messages("client", (type, body) => {
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
  })
}

/** Reads which backend a connection has, and how many of its round trips are answered. */
const answerReader = (onBackend: (pid: number) => void) => {
  // The first is that it is ready at all.
  const seen = { backend: 0, answers: -1 }
  const read = messages("database", (type, body) => {
    if (type === "Z") seen.answers++
    if (type !== "K") return
    seen.backend = body.readInt32BE(0)
    onBackend(seen.backend)
  })
  return { seen, read }
}

/** What a proxy has seen, and where it holds up. */
interface Traffic {
  readonly gates: Set<Holding>
  readonly backends: Set<number>
  roundTrips: Array<RoundTrip>
}

/** Passes on what both sides of a connection send, as far as the gates let it. */
const carry = (client: Socket, database: Socket, traffic: Traffic) => {
  let asked: ReadonlyArray<RoundTrip> = []
  let count = 0
  const read = reader((trip) => {
    asked = [...asked, trip]
    count++
    traffic.roundTrips.push(trip)
  })
  const { read: readAnswers, seen } = answerReader((backend) => {
    traffic.backends.add(backend)
    database.once("close", () => traffic.backends.delete(backend))
  })
  let held = false
  let silent = false

  const waiting = new Set<() => void>()
  const look = () => waiting.forEach((look) => look())
  const answered = (due: number) =>
    new Promise<void>((resolve) => {
      const done = () => {
        if (seen.answers < due && !database.destroyed) return
        waiting.delete(done)
        resolve()
      }
      waiting.add(done)
      done()
    })

  const hold = (gate: Holding, chunk: Buffer) => {
    held = true
    const before = count - asked.length
    /** What was asked before is answered yet. */
    const release = async (bytes: Buffer) => {
      await answered(before)
      silent = true
      database.write(bytes)
    }
    gate.hold(
      {
        backend: seen.backend,
        pass: () => release(chunk).then(() => answered(count)),
        tear: () => release(chunk.subarray(0, chunk.length / 2))
      },
      client
    )
  }
  client.on("data", (chunk: Buffer) => {
    if (held) return
    asked = []
    read(chunk)
    const statements = asked.flatMap(({ statements }) => statements)
    const gate = [...traffic.gates].find(({ pattern }) => statements.some((sql) => pattern.test(sql)))
    if (gate === undefined) database.write(chunk)
    else hold(gate, chunk)
  })
  database.on("data", (chunk: Buffer) => {
    readAnswers(chunk)
    if (!silent) client.write(chunk)
    look()
  })
  // What has been written yet arrives.
  client.once("close", () => database.destroySoon())
  database.once("close", () => {
    client.destroySoon()
    look()
  })
}

const gateOf = (pattern: RegExp, onOpen: (gate: Holding) => void): Holding => {
  const clients = new Map<Socket, Held>()
  let taker: ((held: Held) => void) | undefined
  const gate: Holding = {
    pattern,
    hold: (held, client) => {
      clients.set(client, held)
      client.once("close", () => clients.delete(client))
      taker?.(held)
    },
    isWaiting: () => clients.size > 0,
    next: () =>
      new Promise((resolve) => {
        const [first] = clients.values()
        if (first === undefined) taker = resolve
        else resolve(first)
      }),
    open: () => {
      onOpen(gate)
      for (const client of clients.keys()) client.destroy()
    }
  }
  return gate
}

/** Starts a proxy before the database of a URL. */
export const startWireProxy = Effect.fnUntraced(function* (databaseUrl: string) {
  const target = new URL(databaseUrl)
  const sockets = new Set<Socket>()
  const traffic: Traffic = { gates: new Set(), backends: new Set(), roundTrips: [] }

  const server = createServer((client) => {
    const database = connect({ host: target.hostname, port: Number(target.port || 5432) })
    for (const socket of [client, database]) {
      sockets.add(socket)
      socket.on("close", () => sockets.delete(socket))
      // Either end may go first when the test is over.
      socket.on("error", () => socket.destroy())
    }
    carry(client, database, traffic)
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
      const taken = traffic.roundTrips
      traffic.roundTrips = []
      return taken
    },
    /** The process ids of the backends that it is connected to. */
    backends: (): ReadonlyArray<number> => [...traffic.backends],
    /** Closes a gate before what matches. */
    gate: (pattern: RegExp): Gate => {
      const gate = gateOf(pattern, (gate) => traffic.gates.delete(gate))
      traffic.gates.add(gate)
      return gate
    }
  }
})
export type WireProxy = Effect.Success<ReturnType<typeof startWireProxy>>
