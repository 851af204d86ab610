/** Requests of fault tests: promises, by the whole URL. */
import { setTimeout as sleep } from "node:timers/promises"
import { assert } from "@effect/vitest"
import * as Http from "../support/ContractHttp.ts"
import { assertMatches } from "../support/Matches.ts"
import { eventually } from "../support/Waiting.ts"

export type Answer = Awaited<ReturnType<typeof Http.open>["answer"]>
export type Call = Omit<Http.Request, "path">

/** Sends the head of a request; the caller writes and ends the body. */
export const open = (url: string, call: Call = {}) => Http.open(url, { ...call, path: pathOf(url) })

/** Sends a request, whose connection can be ended, and waits for its answer. */
export const sendOpen = (url: string, call: Call = {}) => Http.sendOpen(url, { ...call, path: pathOf(url) })

/** Sends a request and waits for its answer. */
export const send = (url: string, call?: Call): Promise<Answer> => sendOpen(url, call).answer

const pathOf = (url: string) => new URL(url).href.slice(new URL(url).origin.length)

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
    json: {
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
export const kindOf = ({ json, status }: Answer): string =>
  typeof json === "object" && json !== null && "code" in json ? `${status} ${String(json.code)}` : String(status)

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
