/** Load on bare sockets, which costs this process little: a fixed rate of requests, independent of earlier answers. */
import { existsSync, readFileSync } from "node:fs"
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { quantile } from "../bench/Figures.ts"

/** Returns `wanted`, or the number of connections that the limit of open files permits. */
export const connectionsUpTo = (wanted: number): number => {
  const limits = existsSync("/proc/self/limits") ? readFileSync("/proc/self/limits", "utf8") : ""
  const files = /^Max open files\s+(\d+)/m.exec(limits)?.[1]
  return files === undefined ? wanted : Math.min(wanted, Number(files) - 500)
}

/** The bytes of a request, and the name under which its answers are counted. */
export interface LoadRequest {
  readonly name: string
  readonly bytes: string
}

interface LoadOptions {
  readonly url: string
  readonly nextRequest: (n: number) => LoadRequest
  readonly seconds: number
  /** Requests per second; if undefined, each connection sends its next request once the last is answered. */
  readonly rate?: number
  /** Connections, opened before the load begins. A request for which none is free is not sent. */
  readonly connections: number
}

/** Answers of one name and status. */
interface Answers {
  /** Times to the end of the answer, in milliseconds. */
  readonly millis: Array<number>
  /** Answers without `retry-after`. */
  withoutRetryAfter: number
}

interface LoadResult {
  /** Answers by name and status, such as `get 200`. */
  readonly answers: ReadonlyMap<string, Answers>
  readonly sent: number
  /** Requests for which no connection was free. */
  readonly unsent: number
  /** Requests whose connection ended without an answer. */
  readonly lost: number
}

interface Connection {
  readonly socket: Socket
  name: string
  started: number
  received: string
}

export const request = (method: string, path: string, token: string, key?: string, json?: unknown): string => {
  const body = json === undefined ? "" : JSON.stringify(json)
  return [
    `${method} ${path} HTTP/1.1`,
    "host: localhost",
    `authorization: Bearer ${token}`,
    ...(key === undefined ? [] : [`idempotency-key: ${key}`]),
    ...(json === undefined ? [] : ["content-type: application/json", `content-length: ${Buffer.byteLength(body)}`]),
    "",
    body
  ].join("\r\n")
}

/** Loads a server, and waits until all requests are answered. */
export const load = async ({ connections, nextRequest, rate, seconds, url }: LoadOptions): Promise<LoadResult> => {
  const { hostname, port } = new URL(url)
  const answers = new Map<string, Answers>()
  const all = new Set<Connection>()
  const free: Array<Connection> = []
  let [sent, unsent, lost, pending] = [0, 0, 0, 0]
  let open = true

  const sendNext = (connection: Connection) => {
    const { bytes, name } = nextRequest(sent++)
    pending++
    connection.name = name
    connection.started = performance.now()
    connection.received = ""
    connection.socket.write(bytes)
  }
  const settle = (connection: Connection, status: string, head: string) => {
    pending--
    const kind = `${connection.name} ${status}`
    const of = answers.get(kind) ?? { millis: [], withoutRetryAfter: 0 }
    answers.set(kind, of)
    of.millis.push(performance.now() - connection.started)
    if (!/^retry-after: \d+\r$/im.test(head)) of.withoutRetryAfter++
    connection.name = ""
    if (/^connection: close\r$/im.test(head)) connection.socket.end()
    else if (rate === undefined && open) sendNext(connection)
    else free.push(connection)
  }
  const receive = (connection: Connection) => {
    const { received } = connection
    const end = received.indexOf("\r\n\r\n")
    if (end < 0) return
    const head = received.slice(0, end + 2)
    const length = Number(/^content-length: (\d+)\r$/im.exec(head)?.[1] ?? 0)
    if (received.length < end + 4 + length) return
    settle(connection, head.slice(9, 12), head)
  }
  const dial = async () => {
    const socket = connect({ host: hostname, port: Number(port) }).setNoDelay(true)
    const connection: Connection = { socket, name: "", started: 0, received: "" }
    all.add(connection)
    socket.setEncoding("latin1").on("data", (text: string) => {
      connection.received += text
      receive(connection)
    })
    socket.on("error", () => socket.destroy())
    socket.on("close", () => {
      all.delete(connection)
      const at = free.indexOf(connection)
      if (at >= 0) free.splice(at, 1)
      if (connection.name === "") return
      pending--
      lost++
    })
    await once(socket, "connect")
  }

  // A few at a time: the server's backlog is short, and the system retries only after a second.
  while (all.size < connections) {
    await Promise.all(Array.from({ length: Math.min(100, connections - all.size) }, dial))
  }
  const started = performance.now()
  if (rate === undefined) {
    for (const connection of all) sendNext(connection)
    await sleep(seconds * 1_000)
  } else {
    free.push(...all)
    for (let offered = 0, elapsed = 0; elapsed < seconds; elapsed = (performance.now() - started) / 1_000) {
      for (; offered < elapsed * rate; offered++) {
        const connection = free.shift()
        if (connection === undefined) unsent++
        else sendNext(connection)
      }
      await sleep(2)
    }
  }
  open = false
  while (pending > 0) await sleep(20)
  for (const { socket } of all) socket.destroy()
  return { answers, sent, unsent, lost }
}

/** Returns a line for each kind of answer: number and latency. */
export const report = ({ answers, lost, sent, unsent }: LoadResult): string =>
  [
    `${sent} sent, ${unsent} not for want of a connection, ${lost} without an answer`,
    ...[...answers]
      .toSorted()
      .map(
        ([kind, { millis }]) =>
          `${kind}: ${millis.length}, p50 ${quantile(millis, 0.5).toFixed(0)} ms, p99 ${quantile(millis, 0.99).toFixed(0)} ms`
      )
  ].join("\n")
