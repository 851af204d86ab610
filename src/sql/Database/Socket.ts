/** Connections to PostgreSQL that are closed when the server no longer answers. */
import { Duration } from "effect"
import { connect, type Socket } from "node:net"

const tick = Duration.seconds(1)

/**
 * Time without traffic after which TCP sends keepalive probes, one per second. The connection ends after ten probes without an
 * answer. So a connection that only listens (LISTEN) ends, too, after a network has dropped it.
 */
const keepAliveAfter = Duration.seconds(10)

/** Time in which the server has to close a connection that the client has ended. */
const closeTimeout = Duration.millis(250)

/** The open connections of a process to one database. */
export interface Sockets {
  readonly add: (socket: Socket) => Socket
  /**
   * Destroys the connections that were opened more than a second ago. Newer ones stay: while an address leads to a standby only,
   * they serve reads until another second has passed.
   */
  readonly replace: () => void
}

export const makeSockets = (): Sockets => {
  const open = new Map<Socket, number>()
  return {
    add: (socket) => {
      open.set(socket, performance.now())
      return socket.once("close", () => void open.delete(socket))
    },
    replace: () => {
      const before = performance.now() - Duration.toMillis(tick)
      for (const [socket, openedAt] of open) {
        if (openedAt < before) socket.destroy(new Error("The server of this connection is a standby"))
      }
    }
  }
}

/**
 * Connects, and destroys the connection when a write has had no answer for `deadAfter` (null: no limit). After a failover
 * without a TCP reset, TCP alone would retransmit for a quarter of an hour. If the server does not close a connection that the
 * client has ended, the connection is destroyed after `closeTimeout`. Otherwise a server that hangs would keep this process from
 * exiting.
 */
export const watchedSocket = (host: string, port: number, deadAfter: Duration.Duration | null): Socket => {
  const keepAliveInitialDelay = Duration.toMillis(keepAliveAfter)
  const socket = connect({ host, port, noDelay: true, keepAlive: true, keepAliveInitialDelay })
  socket.once("finish", () => {
    setTimeout(() => socket.destroy(), Duration.toMillis(closeTimeout)).unref()
  })
  if (deadAfter !== null) watch(socket, deadAfter)
  return socket
}

/**
 * Destroys the connection if no bytes are read for `deadAfter` after bytes were written. The bytes are those of TCP, with or
 * without TLS.
 */
const watch = (socket: Socket, deadAfter: Duration.Duration) => {
  const ticks = Duration.toMillis(deadAfter) / Duration.toMillis(tick)
  let answered = { read: 0, written: 0 }
  let unanswered = 0
  const watching = setInterval(() => {
    if (socket.bytesRead !== answered.read || socket.bytesWritten === answered.written) {
      answered = { read: socket.bytesRead, written: socket.bytesWritten }
      unanswered = 0
    } else if (++unanswered > ticks) {
      socket.destroy(new Error("The database does not answer"))
    }
  }, Duration.toMillis(tick)).unref()
  socket.once("close", () => clearInterval(watching))
}
