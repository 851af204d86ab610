/** A proxy before PostgreSQL that catches statements: before they get there, or once they are done, but nobody knows. */
import * as Net from "node:net"
import { defer } from "../support/Finalizers.ts"
import { freePort } from "../support/Process.ts"
import { reader } from "../support/WireProxy.ts"

/** What a test waits for, to strike then. */
export interface Trap {
  /** Everything that was waited for is there. */
  readonly sprung: Promise<void>
  /** Ends the connections of what was caught; nothing that is held goes anywhere. */
  readonly cut: () => void
}

/** One that can let go again. */
export interface Leash extends Trap {
  /** Everything that is held goes where it was going. */
  readonly release: () => void
}

export interface Prey {
  readonly statement: RegExp
  /** Before PostgreSQL has it; or when it has answered, which means that it has committed. */
  readonly when: "asked" | "answered"
  readonly count: number
}

interface Snare extends Prey {
  readonly caught: () => void
  readonly connections: Array<{ readonly cut: () => void; readonly release: () => void }>
}

/** Counts the answers of PostgreSQL: each ends in ReadyForQuery. */
const answers = (onAnswer: () => void) => {
  let pending = Buffer.alloc(0)
  return (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk])
    while (pending.length >= 5 && pending.length >= 1 + pending.readInt32BE(1)) {
      if (pending.readUInt8(0) === 0x5a) onAnswer()
      pending = pending.subarray(1 + pending.readInt32BE(1))
    }
  }
}

/** Starts one; it passes everything on but for what a trap catches. */
export const startTrapProxy = async (databaseUrl: string) => {
  const url = new URL(databaseUrl)
  const target = { host: url.hostname, port: Number(url.port) }
  const sockets = new Set<Net.Socket>()
  let trap: Snare | undefined

  const server = Net.createServer((client) => {
    const database = Net.connect(target)
    for (const socket of [client, database]) {
      sockets.add(socket)
      socket.on("error", () => socket.destroy())
      socket.on("close", () => {
        sockets.delete(socket)
        client.destroy()
        database.destroy()
      })
    }
    const cut = () => {
      client.destroy()
      database.destroy()
    }
    // The first answer is to the startup message, which the reader does not count.
    let asked = 1
    let answered = 0
    let holding: "nothing" | "requests" | "answers" = "nothing"
    let held: Array<() => void> = []
    const release = () => {
      holding = "nothing"
      for (const pass of held) pass()
      held = []
    }
    const awaited = new Map<number, () => void>()
    const read = reader(({ statements }) => {
      asked++
      if (trap === undefined || !statements.some((text) => trap?.statement.test(text))) return
      trap.connections.push({ cut, release })
      if (trap.when === "asked") {
        holding = "requests"
        trap.caught()
      } else {
        holding = "answers"
        awaited.set(asked, trap.caught)
      }
    })
    const count = answers(() => awaited.get(++answered)?.())
    client.on("data", (chunk: Buffer) => {
      read(chunk)
      if (holding === "requests") held.push(() => database.write(chunk))
      else database.write(chunk)
    })
    database.on("data", (chunk: Buffer) => {
      if (holding === "answers") held.push(() => client.write(chunk))
      else client.write(chunk)
      count(chunk)
    })
  })
  url.port = String(await freePort())
  url.hostname = "127.0.0.1"
  await new Promise<void>((resolve) => server.listen(Number(url.port), "127.0.0.1", resolve))
  defer(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })

  return {
    /** The database's URL through the proxy. */
    url: url.href,
    /** Catches the next statements of that kind, and all that comes after them on their connections. */
    trap: (prey: Prey): Leash => {
      const { promise, resolve } = Promise.withResolvers<void>()
      const connections: Snare["connections"] = []
      let left = prey.count
      const caught = () => {
        if (--left > 0) return
        trap = undefined
        resolve()
      }
      trap = { ...prey, caught, connections }
      return {
        sprung: promise,
        cut: () => {
          trap = undefined
          for (const { cut } of connections) cut()
        },
        release: () => {
          trap = undefined
          for (const { release } of connections) release()
        }
      }
    }
  }
}

export type TrapProxy = Awaited<ReturnType<typeof startTrapProxy>>

/** What commits a message with its first attempt. */
export const creates = /INSERT INTO messages /
/** What records how an attempt came out. */
export const records = /^\s*UPDATE messages SET status = \$/
