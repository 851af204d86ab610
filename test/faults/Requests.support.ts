/** HTTP without a client library: connections, headers and bodies exactly as the test sets them. */
import * as Http from "node:http"
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import { assertMatches } from "../support/Matches.ts"
import { eventually } from "../support/Waiting.ts"

export interface Answer {
  readonly status: number
  readonly headers: Http.IncomingHttpHeaders
  readonly text: string
  /** The parsed body if it is JSON. */
  readonly body: unknown
  /** Time from the start of the request to the end of its answer. */
  readonly millis: number
  /** Whether the request used a connection that had been used before. */
  readonly reused: boolean
}

export interface Call {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly json?: unknown
  /** If unset, the request has its own connection. */
  readonly agent?: Http.Agent
}

const jsonHeaders = { "content-type": "application/json" }

/** A request whose body is not written yet. */
interface OpenRequest {
  readonly request: Http.ClientRequest
  readonly answer: Promise<Answer>
}

/** Sends the head of a request; the caller writes and ends the body. */
export const open = (url: string, call: Call = {}): OpenRequest => {
  const started = performance.now()
  const request = Http.request(url, {
    method: call.method ?? "GET",
    agent: call.agent ?? false,
    headers: { ...(call.json === undefined ? {} : jsonHeaders), ...call.headers }
  })
  const answer = new Promise<Answer>((resolve, reject) => {
    request.once("error", reject)
    request.once("response", (response) => {
      let text = ""
      response.setEncoding("utf8").on("data", (part: string) => (text += part))
      response.once("error", reject)
      response.once("end", () =>
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          text,
          body: parse(response.headers["content-type"], text),
          millis: performance.now() - started,
          reused: request.reusedSocket
        })
      )
    })
  })
  // A test may end before the answer; a failure of the answer is then ignored.
  answer.catch(() => undefined)
  return { request, answer }
}

const parse = (contentType: string | undefined, text: string): unknown =>
  /[/+]json\b/.test(contentType ?? "") && text !== "" ? JSON.parse(text) : undefined

/** Sends a request and waits for its answer. */
export const send = (url: string, call: Call = {}): Promise<Answer> => {
  const { answer, request } = open(url, call)
  request.end(call.json === undefined ? undefined : JSON.stringify(call.json))
  return answer
}

/** The path that most tests request. */
export const clients = "/api/v1/developer/crm/clients"

export const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

/** Sends a command under an idempotency key, by POST unless the call has a method. */
export const command = (url: string, token: string, key: string, call: Call): Promise<Answer> =>
  send(url, { method: "POST", ...call, headers: { ...bearer(token), "idempotency-key": key, ...call.headers } })

/** Requests a page of the project's clients. */
export const listClients = (url: string, token: string, call: Call = {}): Promise<Answer> =>
  send(`${url}${clients}?limit=1`, { ...call, headers: { ...bearer(token), ...call.headers } })

/** Waits until a service is ready. */
export const isReady = ({ url }: { readonly url: string }) =>
  eventually(async () => assert.strictEqual((await send(`${url}/readyz`)).status, 200))

/** Waits until a service refuses new requests, using a path without dependencies. */
export const isDraining = ({ url }: { readonly url: string }) =>
  eventually(async () => assert.strictEqual((await send(`${url}/nothing-here`)).status, 503))

/** Creates a client under an idempotency key. */
export const createClient = (
  url: string,
  token: string,
  key: string,
  displayName: string,
  call: Call = {}
): Promise<Answer> => command(`${url}${clients}`, token, key, { ...call, json: { displayName } })

/** Asserts that the answer is the problem `code`, complete and well formed (contract §2). */
export const expectProblem = (answer: Answer, status: number, code: string): void => {
  assertMatches(answer, {
    status,
    body: {
      type: `urn:developer-api:problem:${code}`,
      title: /./,
      status,
      instance: `urn:developer-api:request:${answer.headers["x-request-id"]}`,
      code
    }
  })
  assert.match(String(answer.headers["content-type"]), /^application\/problem\+json/)
}

/** Returns the status and problem code of an answer, such as `200` or `503 service_unavailable`. */
export const kindOf = ({ body, status }: Answer): string =>
  typeof body === "object" && body !== null && "code" in body ? `${status} ${String(body.code)}` : String(status)

/**
 * Sends requests, `concurrency` at a time, until it is stopped; then returns all answers. Each caller pauses between two
 * requests, so that a long test does not keep the machine busy.
 */
export const stream = (concurrency: number, request: (n: number) => Promise<Answer>, pauseMillis = 40) => {
  const answers: Array<Answer> = []
  const failures: Array<unknown> = []
  let open = true
  let n = 0
  const caller = async () => {
    for (; open; await sleep(pauseMillis)) {
      await request(n++).then(
        (answer) => answers.push(answer),
        (failure: unknown) => failures.push(failure)
      )
    }
  }
  const all = Promise.all(Array.from({ length: concurrency }, caller))
  return {
    answers,
    failures,
    kinds: () => [...new Set(answers.map(kindOf))].sort(),
    stop: async () => {
      open = false
      await all
    }
  }
}
