/** The messages of PostgreSQL's protocol: https://www.postgresql.org/docs/current/protocol-message-formats.html */

/** Requests that PostgreSQL answers together: a simple query, or all messages up to a Sync. */
export interface RoundTrip {
  /** The statements that it executes. */
  readonly statements: ReadonlyArray<string>
}

const protocol3 = 196_608

/** Splits the bytes that one side sends into messages. */
const messages = (side: "client" | "database", onMessage: (type: string, body: Buffer) => void) => {
  let pending = Buffer.alloc(0)
  let started = side === "database"
  return (chunk: Buffer) => {
    pending = Buffer.concat([pending, chunk])
    while (true) {
      // The startup message has no type, and neither has a request for TLS before it.
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

/** Reads the round trips that a client sends on one connection. */
export const requestReader = (onRoundTrip: (roundTrip: RoundTrip) => void) => {
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

/** Reads the process id of a connection's backend, and detects the ends of its answers. */
export const answerReader = (events: { readonly onBackend: (pid: number) => void; readonly onAnswer: () => void }) => {
  let isReady = false
  return messages("database", (type, body) => {
    if (type === "K") events.onBackend(body.readInt32BE(0))
    if (type !== "Z") return
    // The first ReadyForQuery ends the connection's startup.
    if (isReady) events.onAnswer()
    isReady = true
  })
}
