/** Commands that are repeated under their key until they are answered, and counts of the answers. */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import { samples } from "../contract/Samples.ts"
import type { Parts } from "./Mix.parts.support.ts"
import { type Answer, bearer, kindOf, send } from "./Requests.support.ts"

/** Every operation of the contract that changes something. */
export const mutations = Object.entries(samples)
  .filter(([, { method, policy }]) => method !== "GET" && policy !== "read")
  .map(([name]) => name)

export interface CallRequest {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: string
  readonly json?: unknown
}

/** The answer to a command. */
export interface ParsedReceipt {
  readonly resourceId: string
  readonly changed: boolean
  /** Version of the record after the command; undefined if the record has none. */
  readonly version: number | undefined
  readonly signingSecret: string | undefined
  readonly replayed: boolean
}

const decodeBody = Schema.decodeUnknownSync(
  Schema.Struct({
    resourceId: Schema.String,
    changed: Schema.Boolean,
    signingSecret: Schema.optionalKey(Schema.String)
  })
)

const receiptOf = ({ body, headers }: Answer): ParsedReceipt => {
  const { changed, resourceId, signingSecret } = decodeBody(body)
  const etag = headers["etag"]
  return {
    resourceId,
    changed,
    version: etag === undefined ? undefined : Number(etag.replaceAll('"', "")),
    signingSecret,
    replayed: headers["idempotent-replayed"] === "true"
  }
}

/** The refusals expected during failures. After each, the outcome is unknown, and the command is repeated. */
const unanswered = new Set(["503 service_unavailable", "503 rate_limiter_unavailable", "503 provider_outcome_unknown"])

/** Milliseconds, longer than any outage. */
const timeout = 60_000

export type Calls = ReturnType<typeof makeCalls>

/** Creates calls with one token; `onAnswer` receives every answer. */
export const makeCalls = (parts: Pick<Parts, "api">, token: string, onAnswer: (answer: Answer) => void = () => {}) => {
  const counts = { answered: new Map<string, number>(), cut: 0, refused: 0, replayed: 0 }
  let keys = 0

  /** Sends a request under a key until `isAnswer` accepts an answer. Other answers must be expected refusals. */
  const until = async (
    name: string,
    key: string,
    { json, params, query }: CallRequest,
    isAnswer: (answer: Answer) => boolean
  ): Promise<Answer> => {
    const { method, path } = samples[name] ?? assert.fail(`There is no operation ${name}`)
    const filled = path.replace(/\{(\w+)\}/g, (_, param: string) => params?.[param] ?? assert.fail(param))
    const call = { method, headers: { ...bearer(token), "idempotency-key": key }, json }
    for (const end = Date.now() + timeout; Date.now() < end; await sleep(50)) {
      const answer = await send(`${parts.api().url}/api${filled}${query ?? ""}`, call).catch(() => undefined)
      if (answer !== undefined) onAnswer(answer)
      if (answer === undefined) counts.cut++
      else if (isAnswer(answer)) return answer
      else {
        assert.isTrue(unanswered.has(kindOf(answer)), `${name}: ${answer.status} ${answer.text}`)
        counts.refused++
      }
    }
    return assert.fail(`${name} under ${key} was not answered for ${timeout} ms`)
  }

  const note = (name: string, answer: Answer) => {
    counts.answered.set(name, (counts.answered.get(name) ?? 0) + 1)
    if (answer.headers["idempotent-replayed"] === "true") counts.replayed++
  }

  return {
    until,
    /** Number of answers by operation, and of cut, refused and replayed requests. */
    counts,
    answered: () => [...counts.answered.values()].reduce((sum, count) => sum + count, 0),
    note,
    newKey: (name: string) => `mix-${name}-${keys++}`,
    /** Sends a command under a new key; asserts whether it changed something, and the resulting version. */
    command: async (
      name: string,
      request: CallRequest,
      expected: { readonly version?: number; readonly changed?: boolean } = {}
    ): Promise<ParsedReceipt> => {
      const key = `mix-${name}-${keys++}`
      const answer = await until(name, key, request, ({ status }) => status === 200 || status === 201)
      note(name, answer)
      const receipt = receiptOf(answer)
      assert.deepStrictEqual(
        { changed: receipt.changed, version: receipt.version },
        { changed: expected.changed ?? true, version: expected.version },
        `${key} ${JSON.stringify(request)}`
      )
      return receipt
    }
  }
}
