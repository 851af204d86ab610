/** Connections to PostgreSQL that are closed when the server no longer answers. */
import { Duration } from "effect"
import { connect, type Socket } from "node:net"

const tick = Duration.seconds(1)

/**
 * Time without traffic after which TCP asks whether the server is still there; after ten questions without an answer, a second apart,
 * the connection ends. So a listener, which writes nothing, notices that a network has dropped its idle connection.
 */
const keepAliveAfter = Duration.seconds(10)

/** Time in which the server has to close a connection that the client has ended. */
const closeTimeout = Duration.millis(250)

/**
 * Connects, and destroys the connection when a write has had no answer for `deadAfter` (null: no limit). After a failover
 * without a TCP reset, TCP alone would retransmit for a quarter of an hour. A connection that the client has ended is
 * destroyed after `closeTimeout`: a server that hangs would not close it, and the process could not exit.
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

/** Watches a connection by its counts of bytes, which work with and without TLS. */
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
