/**
 * Requests in flight: whether the server accepts new ones (contract §15), and the bound of the answers that callers have not read
 * (contract §1). Such answers wait in the sockets' buffers. When those of a project, or of the process, exceed their bound, one of their
 * connections ends: the one from which nothing has been read for the longest time.
 */
import { Context, Effect, Latch, Layer } from "effect"
import { ServerResponse } from "node:http"
import type { Socket } from "node:net"

export class Drain extends Context.Service<
  Drain,
  {
    readonly draining: () => boolean
    /** Counts a request as in flight until the returned function is called. */
    readonly enter: () => () => void
    /** Stops accepting requests, and waits until the requests in flight are answered. */
    readonly drain: Effect.Effect<void>
  }
>()("developer-api-service/http/edge/InFlight/Drain") {
  static readonly layer = Layer.sync(Drain, () => {
    let inFlight = 0
    let draining = false
    const idle = Latch.makeUnsafe(true)
    return {
      draining: () => draining,
      enter: () => {
        inFlight++
        idle.closeUnsafe()
        return () => {
          inFlight--
          if (inFlight === 0) idle.openUnsafe()
        }
      },
      drain: Effect.suspend(() => {
        draining = true
        return idle.await
      })
    }
  })
}

/** Maximum numbers of bytes that are not read. */
const bounds = { project: 32 * 1024 * 1024, process: 128 * 1024 * 1024 }

interface Reader {
  readonly socket: Socket
  /** The project of the last answer; empty if its request had no valid token. */
  project: string
  bytes: number
  /** When an answer was last read, or when the first was sent to a caller who had none unread. Milliseconds of `performance.now()`. */
  since: number
}

declare module "node:net" {
  interface Socket {
    /** Is kept on the socket, so that it ends with it. */
    reader?: Reader | undefined
  }
}

/**
 * Writes header and body with one system call. It ignores `strictContentLength` of Effect's adapter, by which Node would end each
 * answer with another write: this service always sends the length of the body.
 */
export class Answer extends ServerResponse {
  /** The bytes of the body that are not read. */
  unread = 0
}
Object.defineProperty(Answer.prototype, "strictContentLength", { get: () => false, set: () => {} })

export class Unread extends Context.Service<
  Unread,
  {
    readonly connect: (socket: Socket) => void
    /** Counts an answer that is about to be sent as unread. */
    readonly add: (answer: object, bytes: number, project: string) => void
    /** An answer was read, or its connection has ended. */
    readonly remove: (answer: object) => void
  }
>()("developer-api-service/http/edge/InFlight/Unread") {
  static readonly layer = Layer.sync(Unread, () => {
    const readers: Array<Reader> = []
    let total = 0

    const take = (reader: Reader, bytes: number) => {
      reader.bytes -= bytes
      reader.since = performance.now()
      total -= bytes
    }

    const endOldest = (of: ReadonlyArray<Reader>) => {
      const oldest = of.reduce((a, b) => (b.since < a.since ? b : a))
      take(oldest, oldest.bytes)
      oldest.socket.reader = undefined
      oldest.socket.destroy()
    }

    const bound = (project: string) => {
      const own = readers.filter((reader) => reader.bytes > 0 && reader.project === project)
      if (own.reduce((sum, { bytes }) => sum + bytes, 0) > bounds.project) endOldest(own)
      else if (total > bounds.process) endOldest(readers.filter(({ bytes }) => bytes > 0))
    }

    return {
      connect: (socket) => {
        const reader: Reader = { socket, project: "", bytes: 0, since: 0 }
        socket.reader = reader
        readers.push(reader)
        socket.once("close", () => {
          const last = readers.pop()
          const at = last === reader ? -1 : readers.indexOf(reader)
          if (last !== undefined && at >= 0) readers[at] = last
        })
      },
      add: (answer, bytes, project) => {
        if (!(answer instanceof Answer) || answer.destroyed) return
        const { reader } = answer.req.socket
        if (reader === undefined) return
        if (reader.bytes === 0) reader.since = performance.now()
        reader.project = project
        reader.bytes += bytes
        total += bytes
        answer.unread = bytes
        if (total > bounds.project) bound(project)
      },
      remove: (answer) => {
        if (!(answer instanceof Answer)) return
        const { reader } = answer.req.socket
        if (reader !== undefined) take(reader, answer.unread)
      }
    }
  })
}
