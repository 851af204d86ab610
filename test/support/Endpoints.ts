/** Endpoints whose answers a test determines byte by byte. All end with the scope. */
import { Effect } from "effect"
import { createServer, type Socket } from "node:net"
import { createServer as createTlsServer, getCACertificates, setDefaultCACertificates, type TlsOptions } from "node:tls"

/** A complete request on a connection. */
export interface Received {
  readonly socket: Socket
  /** The number of connections at its arrival, including its own. */
  readonly connection: number
  /** The number of earlier requests over all connections. */
  readonly earlier: number
  readonly text: string
}

export interface Endpoint {
  readonly port: number
  readonly received: ReadonlyArray<Received>
  readonly connections: () => number
  readonly closed: () => number
}

interface EndpointOptions {
  readonly host?: string
  readonly port?: number
  readonly tls?: TlsOptions
  /** Handles a new connection instead of waiting for a request. */
  readonly connected?: (socket: Socket) => void
  /** Whether a connection, counted from 1, is closed before anything is read. */
  readonly closes?: (connection: number) => boolean
}

/** Starts an endpoint on loopback that calls `answer` with each complete request. */
export const endpoint = (answer: (received: Received) => void, options: EndpointOptions = {}) =>
  Effect.acquireRelease(
    Effect.callback<Endpoint & { readonly close: () => void }>((resume) => {
      const received: Array<Received> = []
      const sockets = new Set<Socket>()
      const count = { connections: 0, closed: 0 }
      const accept = (socket: Socket) => {
        const connection = ++count.connections
        sockets.add(socket)
        socket
          .on("error", () => {})
          .on("close", () => {
            sockets.delete(socket)
            count.closed++
          })
        if (options.closes?.(connection) === true) return socket.destroy()
        if (options.connected !== undefined) return options.connected(socket)
        let text = ""
        socket.on("data", (chunk) => {
          text += chunk.toString("latin1")
          if (!isWhole(text)) return
          const request = { socket, connection, earlier: received.length, text }
          text = ""
          received.push(request)
          answer(request)
        })
      }
      const server = options.tls === undefined ? createServer(accept) : createTlsServer(options.tls, accept)
      server.on("tlsClientError", () => {})
      server.listen(options.port ?? 0, options.host ?? "127.0.0.1", () => {
        const address = server.address()
        resume(
          Effect.succeed({
            port: typeof address === "object" && address !== null ? address.port : 0,
            received,
            connections: () => count.connections,
            closed: () => count.closed,
            close: () => {
              server.close()
              for (const socket of sockets) socket.destroy()
            }
          })
        )
      })
    }),
    ({ close }) => Effect.sync(close)
  )

/** Returns a request: its first line, its headers with names in lower case, and its body. */
export const parsed = (text: string) => {
  const [head = "", body = ""] = text.split("\r\n\r\n")
  const [line = "", ...fields] = head.split("\r\n")
  const headers = fields.map((field): readonly [string, string] => {
    const colon = field.indexOf(":")
    return [field.slice(0, colon).toLowerCase(), field.slice(colon + 1).trim()]
  })
  return { line, headers: Object.fromEntries(headers), body: Buffer.from(body, "latin1").toString() }
}

const isWhole = (text: string) => {
  const end = text.indexOf("\r\n\r\n")
  const length = Number(/\r\ncontent-length: (\d+)\r\n/i.exec(text)?.[1] ?? 0)
  return end >= 0 && text.length >= end + 4 + length
}

/** Starts an endpoint that answers every request with the same bytes. */
export const answering = (...lines: ReadonlyArray<string>) => endpoint(({ socket }) => socket.write(lines.join("\r\n")))

/** Returns a complete answer with a status and further header lines. */
export const answerOf = (status: number, ...headers: ReadonlyArray<string>) =>
  [`HTTP/1.1 ${status} Told so`, "content-length: 2", ...headers, "", "ok"].join("\r\n")

/** Starts an endpoint that answers every request with a beginning, and with the same bytes again and again for as long as it is read. */
export const pouring = (beginning: string, again: string) =>
  endpoint(({ socket }) => {
    const pour = () => {
      while (!socket.destroyed && socket.write(again));
    }
    socket.on("drain", pour).write(beginning)
    pour()
  })

const chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

/** Answers without an end, whose bytes are no part of a body or few of it: each with its beginning and what is repeated. */
export const endless: ReadonlyArray<readonly [what: string, beginning: string, again: string]> = [
  ["chunk extensions", chunked, `1;${"x".repeat(65_000)}\r\ny\r\n`],
  ["one chunk extension", `${chunked}1;`, "x".repeat(65_536)],
  ["leading zeros of a chunk's size", chunked, "0".repeat(65_536)],
  ["interim answers", "", "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1_000)],
  ["long interim answers", "", `HTTP/1.1 103 Early Hints\r\nlink: ${"x".repeat(15_000)}\r\n\r\n`],
  ["empty lines", "", "\r\n".repeat(30_000)],
  ["a status line", "HTTP/1.1 200 ", "x".repeat(65_536)],
  ["a header's name", "HTTP/1.1 200 OK\r\n", "x".repeat(65_536)],
  ["a header's value", "HTTP/1.1 200 OK\r\nx: ", "x".repeat(65_536)],
  ["space before a header's value", "HTTP/1.1 200 OK\r\nx:", " ".repeat(65_536)],
  ["trailers", `${chunked}0\r\n`, "x: y\r\n".repeat(10_000)]
]

/** A self-signed certificate for `hooks.test` and `localhost`, valid until 2120. */
export const tls = {
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg2Y0kvoUTqslReRc/
WUYvmBTm2ko0GXXoSu/RZYXqzjihRANCAAQNlpMUboIt0bmeK2fius1GdhxTqn4G
N4IZHjuyYzqnX7m6j1PYk56aCJ29zAhmoq1VebaaTJoAv9+MFP+i2tQM
-----END PRIVATE KEY-----`,
  cert: `-----BEGIN CERTIFICATE-----
MIIBbzCCARWgAwIBAgIBATAKBggqhkjOPQQDAjAVMRMwEQYDVQQDDApob29rcy50
ZXN0MCAXDTIwMDEwMTAwMDAwMFoYDzIxMjAwMTAxMDAwMDAwWjAVMRMwEQYDVQQD
DApob29rcy50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEDZaTFG6CLdG5
nitn4rrNRnYcU6p+BjeCGR47smM6p1+5uo9T2JOemgidvcwIZqKtVXm2mkyaAL/f
jBT/otrUDKNUMFIwIAYDVR0RBBkwF4IKaG9va3MudGVzdIIJbG9jYWxob3N0MA8G
A1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFCiUJV7GoKaN+kXdGSJfD9l9I4QaMAoG
CCqGSM49BAMCA0gAMEUCIQD7R5iEAA3nBd5jbH5jAHK+cwjlqpBQbsB0zuvUiXyi
RwIgO+Tdrk8BmH0XtEvbdRM0WjLU7WSEZF2xyjVQ7VQfdcg=
-----END CERTIFICATE-----`
}

/** Makes this process trust the certificate until the scope closes. */
export const trusted = Effect.acquireRelease(
  Effect.sync(() => {
    const before = getCACertificates("default")
    setDefaultCACertificates([...before, tls.cert])
    return before
  }),
  (before) => Effect.sync(() => setDefaultCACertificates(before))
)
