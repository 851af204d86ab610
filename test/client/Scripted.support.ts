/** A server that handles each connection by a step of a script, and keeps the requests that it has read. */
import { Effect } from "effect"
import { randomBytes } from "node:crypto"
import type { Socket } from "node:net"
import { DeveloperApi, type DeveloperApiOptions } from "../../src/client/DeveloperApi.ts"
import { endpoint, parsed } from "../support/Endpoints.ts"

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

const act = (socket: Socket, step: Step) => {
  if (step === "reset") return socket.resetAndDestroy()
  if (step === "broken") return socket.end(receipt.bytes.slice(0, -5))
  return step === "closed" ? socket.destroy() : socket.end(step.bytes)
}

/** Starts the server; it ends with the test. */
export const scripted = Effect.fnUntraced(function* (...steps: readonly [Step, ...Array<Step>]) {
  const requests: Array<ReturnType<typeof parsed>> = []
  const stepOf = (connection: number) => steps[connection - 1] ?? steps.at(-1) ?? "closed"
  const { connections, port } = yield* endpoint(
    ({ connection, socket, text }) => {
      requests.push(parsed(text))
      act(socket, stepOf(connection))
    },
    { closes: (connection) => stepOf(connection) === "closed" }
  )
  return {
    baseUrl: `http://127.0.0.1:${port}`,
    requests,
    connections,
    keys: () => requests.map(({ headers }) => headers["idempotency-key"])
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
