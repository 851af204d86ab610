/** Connections to PostgreSQL that detect a server that no longer answers. */
import { Duration } from "effect"
import { connect, type Socket } from "node:net"

const tick = Duration.seconds(1)

/** Time that the server has to close a connection after the client has ended it. */
const closeWithin = Duration.millis(250)

/**
 * Connects, and destroys the connection once what was written to it stays unanswered for `silence`; null: never. After a
 * failover that sends no reset, TCP alone would keep trying for a quarter of an hour, and the pool with it. A server that
 * hangs does not close an ended connection either, and the end of the process would wait for it.
 */
export const watchedSocket = (host: string, port: number, silence: Duration.Duration | null): Socket => {
  const socket = connect({ host, port, noDelay: true })
  socket.once("finish", () => {
    setTimeout(() => socket.destroy(), Duration.toMillis(closeWithin)).unref()
  })
  if (silence !== null) watch(socket, silence)
  return socket
}

/** Compares byte counts, which also exist below TLS. */
const watch = (socket: Socket, silence: Duration.Duration) => {
  const ticks = Duration.toMillis(silence) / Duration.toMillis(tick)
  let answered = { read: 0, written: 0 }
  let silent = 0
  const watching = setInterval(() => {
    if (socket.bytesRead !== answered.read || socket.bytesWritten === answered.written) {
      answered = { read: socket.bytesRead, written: socket.bytesWritten }
      silent = 0
    } else if (++silent > ticks) {
      socket.destroy(new Error("The database does not answer"))
    }
  }, Duration.toMillis(tick)).unref()
  socket.once("close", () => clearInterval(watching))
}
