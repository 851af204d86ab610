/** A server that handles each connection by a step of a script, and keeps the requests that it has read. */
import { Effect } from "effect"
import { randomBytes } from "node:crypto"
import type { Socket } from "node:net"
import { DeveloperApi, type DeveloperApiOptions } from "../../src/client/DeveloperApi.ts"
import { endpoint } from "../support/Endpoints.ts"

/** The handling of one connection. The last step is repeated. */
export type Step =
  /** Closes the connection before anything is read. */
  | "closed"
  /** Resets the connection once the request is read. */
  | "reset"
  /** Ends the connection within the body of a good answer. */
  | "broken"
  /** Answers with these bytes. */
  | { readonly bytes: string }

/** A request as it was read. */
export interface Read {
  readonly line: string
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

/** Returns the bytes of an answer. */
export const answering = (
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {}
): { readonly bytes: string } => {
  const text = typeof body === "string" ? body : JSON.stringify(body)
  const type = status < 300 ? "application/json" : "application/problem+json"
  const lines = Object.entries({
    "content-type": type,
    "content-length": String(Buffer.byteLength(text)),
    connection: "close",
    ...headers
  }).map(([name, value]) => `${name}: ${value}`)
  return { bytes: [`HTTP/1.1 ${status} Told so`, ...lines, "", text].join("\r\n") }
}

/** Returns the bytes of a problem of the API. */
export const problem = (status: number, code: string, headers: Readonly<Record<string, string>> = {}, more = {}) =>
  answering(
    status,
    {
      type: `urn:developer-api:problem:${code}`,
      title: "Told so.",
      status,
      detail: "As the script says.",
      instance: "urn:developer-api:request:1",
      code,
      ...more
    },
    headers
  )

/** A receipt of a mutation. */
export const receipt = answering(201, { resourceId: "cli_1", changed: true }, { etag: '"1"' })

const read = (text: string): Read => {
  const [head = "", body = ""] = text.split("\r\n\r\n")
  const [line = "", ...fields] = head.split("\r\n")
  const headers = fields.map((field): [string, string] => {
    const at = field.indexOf(":")
    return [field.slice(0, at).toLowerCase(), field.slice(at + 1).trim()]
  })
  return { line, headers: new Map(headers), body }
}

const act = (socket: Socket, step: Step) => {
  if (step === "reset") return socket.resetAndDestroy()
  if (step === "broken") return socket.end(receipt.bytes.slice(0, -5))
  return step === "closed" ? socket.destroy() : socket.end(step.bytes)
}

/** Starts the server; it ends with the test. */
export const scripted = Effect.fnUntraced(function* (...steps: readonly [Step, ...Array<Step>]) {
  const requests: Array<Read> = []
  let connections = 0
  const { port } = yield* endpoint(() => {}, {
    connected: (socket) => {
      const step = steps[connections++] ?? steps.at(-1) ?? "closed"
      if (step === "closed") return socket.destroy()
      let text = ""
      socket.on("data", (chunk) => {
        text += chunk.toString("latin1")
        const end = text.indexOf("\r\n\r\n")
        const length = Number(/\r\ncontent-length: (\d+)\r\n/i.exec(text)?.[1] ?? 0)
        if (end < 0 || text.length < end + 4 + length) return
        requests.push(read(text))
        act(socket, step)
      })
    }
  })
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    requests,
    connections: () => connections,
    keys: () => requests.map(({ headers }) => headers.get("idempotency-key"))
  }
})

/** A token that is never checked. */
export const token = `dk_${randomBytes(6).toString("hex")}_secret`

/** Starts the server, with a client that retries after 1 ms unless the options differ. */
export const calling = Effect.fnUntraced(function* (
  steps: readonly [Step, ...Array<Step>],
  options: Partial<DeveloperApiOptions> = {}
) {
  const server = yield* scripted(...steps)
  const layer = DeveloperApi.layer({ baseUrl: server.baseUrl, token, retry: { delay: "1 millis" }, ...options })
  return { ...server, ...(yield* Effect.provide(DeveloperApi, layer)) }
})
