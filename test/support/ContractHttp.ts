/**
 * Requests on `node:http`, one connection each unless they share an agent. Requests that fetch would refuse or correct are sent
 * unchanged.
 */
import { Effect } from "effect"
import { type Agent, type ClientRequest, type IncomingHttpHeaders, request as startRequest } from "node:http"
import { connect } from "node:net"

export interface Request {
  /** GET if absent. */
  readonly method?: string
  /** Path and query, sent unchanged. */
  readonly path: string
  /** Becomes `Authorization: Bearer …`. */
  readonly token?: string | undefined
  /** Becomes `idempotency-key`. */
  readonly key?: string | undefined
  /** Headers that replace those of the other members. A list is sent as several headers. */
  readonly headers?: Readonly<Record<string, string | Array<string>>>
  /** Sent as `application/json`. */
  readonly json?: unknown
  /** Sent unchanged, without a content type unless `headers` has one. */
  readonly body?: string | Uint8Array
  /** Sends the body in chunks, without its length. */
  readonly chunked?: boolean
  /** Holds the connections that are used again. */
  readonly agent?: Agent
}

export interface Answer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly text: string
  /** The body if it is JSON. */
  readonly json: unknown
}

/** A request whose head is sent, and the answer to come. */
interface OpenRequest {
  readonly request: ClientRequest
  readonly answer: Promise<Answer & { /** From the start to the end of the answer. */ readonly millis: number }>
}

const textOf = ({ body, json }: Omit<Request, "path">) =>
  body ?? (json === undefined ? undefined : JSON.stringify(json))

/** Sends the head of a request to `base`; the caller ends the request. */
export const open = (base: string, { chunked, headers, ...request }: Request): OpenRequest => {
  const started = performance.now()
  const { hostname, port } = new URL(base)
  const { agent = false, json, key, method = "GET", path, token } = request
  const text = textOf(request)
  const outgoing = startRequest({
    hostname,
    port,
    method,
    path,
    agent,
    headers: {
      ...(json === undefined ? {} : { "content-type": "application/json" }),
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(key === undefined ? {} : { "idempotency-key": key }),
      ...(text === undefined
        ? {}
        : chunked === true
          ? { "transfer-encoding": "chunked" }
          : { "content-length": String(Buffer.byteLength(text)) }),
      ...headers
    }
  })
  const answer = new Promise<Awaited<OpenRequest["answer"]>>((resolve, reject) => {
    outgoing.on("error", reject)
    outgoing.on("response", (incoming) => {
      const chunks: Array<Buffer> = []
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk))
      incoming.on("error", reject)
      incoming.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8")
        const { headers, statusCode: status = 0 } = incoming
        resolve({ status, headers, text, json: parse(text), millis: performance.now() - started })
      })
    })
  })
  // A test may end before the answer; a failure of the answer is then ignored.
  answer.catch(() => undefined)
  return { request: outgoing, answer }
}

/** Sends a whole request to `base`. */
export const sendOpen = (base: string, request: Request): OpenRequest => {
  const opened = open(base, request)
  opened.request.end(textOf(request))
  return opened
}

/** Sends a request to `base` and reads the whole answer. */
export const send = (base: string, request: Request): Effect.Effect<Answer> =>
  Effect.callback<Answer, Error>((resume) => {
    const { answer, request: outgoing } = sendOpen(base, request)
    answer.then(
      (answer) => resume(Effect.succeed(answer)),
      (error: Error) => resume(Effect.fail(error))
    )
    return Effect.sync(() => outgoing.destroy())
  }).pipe(Effect.orDie)

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Parses the answers that were received on a connection. That to HEAD has no body. */
export const answersOf = (received: string): ReadonlyArray<Answer> => {
  const answers: Array<Answer> = []
  for (let rest = received; rest !== "";) {
    const [head = "", status, fields = ""] = /^HTTP\/1\.1 (\d{3}) [^\r\n]*\r\n((?:[^\r\n]+\r\n)*)\r\n/.exec(rest) ?? []
    if (head === "") throw new Error(`No answer begins with ${rest.slice(0, 500)}`)
    const headers = Object.fromEntries(
      fields.split("\r\n").map((field) => [field.split(":")[0]?.toLowerCase(), field.replace(/^[^:]*: */, "")])
    )
    rest = rest.slice(head.length)
    const length = rest.startsWith("HTTP/1.1 ") ? 0 : Number(headers["content-length"] ?? 0)
    const text = Buffer.from(rest).subarray(0, length).toString()
    rest = rest.slice(text.length)
    answers.push({ status: Number(status), headers, text, json: parse(text) })
  }
  return answers
}

/** Writes bytes to a connection, and more once it has an answer; returns what is received until the server closes it. */
export const sendBytes = (base: string, bytes: string | Uint8Array, more?: string): Effect.Effect<string> =>
  Effect.callback<string, Error>((resume) => {
    const { hostname, port } = new URL(base)
    const chunks: Array<Buffer> = []
    const socket = connect({ host: hostname, port: Number(port) }, () => socket.write(bytes))
    socket.on("data", (chunk) => chunks.push(Buffer.from(chunk)))
    if (more !== undefined) socket.once("data", () => socket.write(more))
    socket.on("error", (error) => resume(Effect.fail(error)))
    socket.on("end", () => resume(Effect.succeed(Buffer.concat(chunks).toString("utf8"))))
    return Effect.sync(() => socket.destroy())
  }).pipe(Effect.orDie)
