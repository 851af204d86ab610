/** Load on bare sockets, which costs this process little: a rate of requests, whatever becomes of those before them. */
import { existsSync, readFileSync } from "node:fs"
import { once } from "node:events"
import { connect, type Socket } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { quantile } from "../bench/Figures.ts"

/** `wanted` connections, or as many as one process may hold here beside its other files. */
export const connectionsUpTo = (wanted: number): number => {
  const limits = existsSync("/proc/self/limits") ? readFileSync("/proc/self/limits", "utf8") : ""
  const files = /^Max open files\s+(\d+)/m.exec(limits)?.[1]
  return files === undefined ? wanted : Math.min(wanted, Number(files) - 500)
}

/** A request as it is written, and what its answers are counted under. */
export interface Shot {
  readonly name: string
  readonly bytes: string
}

export interface LoadOptions {
  readonly url: string
  readonly shot: (n: number) => Shot
  readonly seconds: number
  /** Requests per second; undefined: each connection sends the next once the last is answered. */
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

export interface LoadResult {
  /** By name and status: `get 200`. */
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

/** Puts a server under load, and waits until all that was sent is answered. */
export const load = async ({ connections, rate, seconds, shot, url }: LoadOptions): Promise<LoadResult> => {
  const { hostname, port } = new URL(url)
  const answers = new Map<string, Answers>()
  const all = new Set<Connection>()
  const free: Array<Connection> = []
  let [sent, unsent, lost, pending] = [0, 0, 0, 0]
  let open = true

  const fire = (connection: Connection) => {
    const { bytes, name } = shot(sent++)
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
    else if (rate === undefined && open) fire(connection)
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

  // A few at a time: the server's backlog is short, and the system tries again only after a second.
  while (all.size < connections) {
    await Promise.all(Array.from({ length: Math.min(100, connections - all.size) }, dial))
  }
  const started = performance.now()
  if (rate === undefined) {
    for (const connection of all) fire(connection)
    await sleep(seconds * 1_000)
  } else {
    free.push(...all)
    for (let offered = 0, elapsed = 0; elapsed < seconds; elapsed = (performance.now() - started) / 1_000) {
      for (; offered < elapsed * rate; offered++) {
        const connection = free.shift()
        if (connection === undefined) unsent++
        else fire(connection)
      }
      await sleep(2)
    }
  }
  open = false
  while (pending > 0) await sleep(20)
  for (const { socket } of all) socket.destroy()
  return { answers, sent, unsent, lost }
}

/** A line for each kind of answer: how many, and how long they took. */
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
