/** Connections to PostgreSQL that notice when nobody answers any more. */
import { Duration } from "effect"
import { connect, type Socket } from "node:net"

const tick = Duration.seconds(1)

/**
 * Connects, and destroys the connection once what was written to it stays unanswered for `patience`. After a failover
 * that sends no reset, TCP alone would keep trying for a quarter of an hour, and the pool with it.
 *
 * Bytes are what is compared, as they are counted below TLS, too.
 */
export const watchedSocket = (host: string, port: number, patience: Duration.Duration): Socket => {
  const socket = connect({ host, port, noDelay: true })
  const ticks = Duration.toMillis(patience) / Duration.toMillis(tick)
  let answered = { read: 0, written: 0 }
  let silent = 0
  const watch = setInterval(() => {
    if (socket.bytesRead !== answered.read || socket.bytesWritten === answered.written) {
      answered = { read: socket.bytesRead, written: socket.bytesWritten }
      silent = 0
    } else if (++silent > ticks) {
      socket.destroy(new Error("The database does not answer"))
    }
  }, Duration.toMillis(tick)).unref()
  return socket.once("close", () => clearInterval(watch))
}
