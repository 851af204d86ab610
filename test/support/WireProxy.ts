/**
 * A TCP proxy before PostgreSQL: records round trips and their SQL, holds or cuts selected ones, stops forwarding, and
 * switches to another server.
 */
import { Effect } from "effect"
import { connect, createServer, type Socket } from "node:net"
import { opened } from "./Finalizers.ts"
import { answerReader, requestReader, type RoundTrip } from "./WireMessages.ts"

/** A connection with a held round trip: `requested`, before PostgreSQL receives it, or `answered`, before the client does. */
interface Held {
  /** The process id of its backend. */
  readonly backend: number
  /** Sends the round trip to PostgreSQL, but no answer to the client. Resolves when it is answered or the connection ends. */
  readonly pass: () => Promise<void>
  /** Sends half of it to PostgreSQL. */
  readonly tear: () => Promise<void>
  /** Sends everything that was held, and ends the hold. */
  readonly release: () => void
  /** Ends the connection on both sides. */
  readonly cut: () => void
}

interface Catch {
  readonly statement: RegExp
  readonly when: "requested" | "answered"
  readonly count: number
}

interface Watch {
  readonly pattern: RegExp
  readonly when: Catch["when"]
  readonly onHeld: (held: Held, client: Socket) => void
}

/** The traffic of a proxy, and the statements to hold. */
interface Traffic {
  readonly watches: Set<Watch>
  readonly backends: Set<number>
  roundTrips: Array<RoundTrip>
}

/** Forwards what both sides of a connection send, unless a watch holds it. */
const carry = (client: Socket, database: Socket, traffic: Traffic) => {
  let [backend, asked, answered] = [0, 0, 0]
  let requests: Array<Buffer> | undefined
  let answers: Array<Buffer> | undefined
  let trips: ReadonlyArray<RoundTrip> = []
  const waiting = new Set<() => void>()
  const notify = () => waiting.forEach((look) => look())

  const readRequests = requestReader((trip) => {
    asked++
    trips = [...trips, trip]
    traffic.roundTrips.push(trip)
  })
  const readAnswers = answerReader({
    onBackend: (pid) => {
      backend = pid
      traffic.backends.add(pid)
      database.once("close", () => traffic.backends.delete(pid))
    },
    onAnswer: () => void answered++
  })
  /** Resolves when this many round trips are answered, or the connection has ended. */
  const untilAnswered = (due: number) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (answered < due && !database.destroyed) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      look()
    })
  const held = (chunk: Buffer, before: number, due: number): Held => {
    const sendSilently = async (bytes: Buffer) => {
      // Answers to earlier round trips are still forwarded to the client.
      await untilAnswered(before)
      answers ??= []
      database.write(bytes)
    }
    return {
      backend,
      pass: () => sendSilently(chunk).then(() => untilAnswered(due)),
      tear: () => sendSilently(chunk.subarray(0, chunk.length / 2)),
      release: () => {
        for (const bytes of requests ?? []) database.write(bytes)
        for (const bytes of answers ?? []) client.write(bytes)
        requests = answers = undefined
      },
      cut: () => {
        client.destroy()
        database.destroy()
      }
    }
  }
  client.on("data", (chunk: Buffer) => {
    trips = []
    const before = asked
    readRequests(chunk)
    let isHeld = requests !== undefined
    for (const [index, { statements }] of trips.entries()) {
      const watch = [...traffic.watches].find(({ pattern }) => statements.some((sql) => pattern.test(sql)))
      if (watch === undefined) continue
      const found = held(chunk, before, asked)
      if (watch.when === "requested") {
        isHeld = true
        watch.onHeld(found, client)
      } else {
        answers ??= []
        const due = before + index + 1
        void untilAnswered(due).then(() => answered >= due && watch.onHeld(found, client))
      }
    }
    if (isHeld) requests = [...(requests ?? []), chunk]
    else database.write(chunk)
  })
  database.on("data", (chunk: Buffer) => {
    if (answers === undefined) client.write(chunk)
    else answers.push(chunk)
    readAnswers(chunk)
    notify()
  })
  // All written data is sent before the other side closes.
  client.once("close", () => database.destroySoon())
  database.once("close", () => {
    client.destroySoon()
    notify()
  })
}

/** Holds the round trips in which a statement matches. */
const gateOf = (statement: RegExp, watches: Set<Watch>) => {
  const clients = new Map<Socket, Held>()
  let taker: ((held: Held) => void) | undefined
  const watch: Watch = {
    pattern: statement,
    when: "requested",
    onHeld: (held, client) => {
      if (clients.has(client)) return
      clients.set(client, held)
      client.once("close", () => clients.delete(client))
      taker?.(held)
    }
  }
  watches.add(watch)
  return {
    /** Whether a round trip is held and its client still waits. */
    isWaiting: () => clients.size > 0,
    /** Returns the oldest held round trip whose client still waits, or the next one. */
    next: () =>
      new Promise<Held>((resolve) => {
        const [first] = clients.values()
        if (first === undefined) taker = resolve
        else resolve(first)
      }),
    /** Ends the hold, and the connections that are held. */
    open: () => {
      watches.delete(watch)
      for (const client of clients.keys()) client.destroy()
    }
  }
}

/** Holds the next round trips in which a statement matches; `reached` resolves when `count` are held. */
const trapOf = ({ count, statement, when }: Catch, watches: Set<Watch>) => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const all: Array<Held> = []
  const watch: Watch = {
    pattern: statement,
    when,
    onHeld: (held) => {
      if (all.push(held) < count) return
      watches.delete(watch)
      resolve()
    }
  }
  watches.add(watch)
  const end = (each: (held: Held) => void) => () => {
    watches.delete(watch)
    all.forEach(each)
  }
  return { reached: promise, cut: end(({ cut }) => cut()), release: end(({ release }) => release()) }
}

/** Starts a proxy before the database of a URL; it ends with the scope. */
export const startWireProxy = Effect.fnUntraced(function* (databaseUrl: string) {
  const url = new URL(databaseUrl)
  const host = url.hostname
  const sockets = new Set<Socket>()
  const traffic: Traffic = { watches: new Set(), backends: new Set(), roundTrips: [] }
  let isHanging = false
  let port = Number(url.port || 5432)

  const server = createServer((client) => {
    const both = isHanging ? [client] : [client, connect({ host, port })]
    for (const socket of both) {
      sockets.add(socket)
      socket.on("close", () => sockets.delete(socket))
      // Either side may close first at the end of a test.
      socket.on("error", () => socket.destroy())
    }
    const [, database] = both
    if (database !== undefined) carry(client, database, traffic)
  })
  yield* Effect.callback<void, Error>((resume) => {
    server.once("error", (error) => resume(Effect.fail(error)))
    server.listen(0, "127.0.0.1", () => resume(Effect.void))
  }).pipe(Effect.orDie)
  const destroyAll = () => sockets.forEach((socket) => socket.destroy())
  yield* Effect.addFinalizer(() =>
    Effect.callback<void>((resume) => {
      server.close(() => resume(Effect.void))
      destroyAll()
    })
  )
  const address = server.address()
  if (address === null || typeof address === "string") return yield* Effect.die(new Error("The proxy has no port"))
  url.hostname = "127.0.0.1"
  url.port = String(address.port)

  return {
    /** The database's URL through the proxy. */
    url: url.href,
    /** Returns the round trips since the last call. */
    take: () => traffic.roundTrips.splice(0),
    /** Returns the process ids of the connected backends. */
    backends: (): ReadonlyArray<number> => [...traffic.backends],
    /** Holds every round trip in which a statement matches, until the gate is opened. */
    gate: (statement: RegExp) => gateOf(statement, traffic.watches),
    /** Holds the next round trips in which a statement matches, and everything after them on their connections. */
    trap: (wanted: Catch) => trapOf(wanted, traffic.watches),
    /** Stops forwarding on open connections, which stay open on both sides. New connections work. */
    blackHole: () => {
      for (const socket of sockets) socket.removeAllListeners("data").removeAllListeners("close").resume()
    },
    /** Ends the open connections, accepts new ones, and forwards nothing on them until `heal`. */
    hang: () => {
      isHanging = true
      destroyAll()
    },
    heal: () => {
      isHanging = false
      destroyAll()
    },
    /** Forwards new connections to another port. Ends the open ones unless they are kept. */
    turnTo: (other: number, open: "ended" | "kept" = "ended") => {
      port = other
      if (open === "ended") destroyAll()
    }
  }
})
export type Trap = ReturnType<typeof trapOf>
export type WireProxy = Effect.Success<ReturnType<typeof startWireProxy>>

/** Starts a proxy that ends with the test. */
export const openProxy = (databaseUrl: string) => opened(startWireProxy(databaseUrl))
