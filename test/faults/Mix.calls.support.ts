/** Commands that are repeated under their key until they are answered, and counts of the answers. */
import { assert } from "@effect/vitest"
import { Schema } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import { samples } from "../contract/Samples.ts"
import type { Service } from "../support/Process.ts"
import { eventually } from "../support/Waiting.ts"
import { type Answer, command, kindOf } from "./Requests.support.ts"

/** Operations that send again what the ledger counts once: their own tests call them. */
const uncounted = new Set(["testWebhook", "replayDeliveries"])

/** Every operation of the contract that changes something, and is counted. */
export const mutations: ReadonlyArray<string> = Object.entries(samples)
  .filter(([name, { method, policy }]) => method !== "GET" && policy !== "read" && !uncounted.has(name))
  .map(([name]) => name)

interface CallRequest {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: string
  readonly json?: unknown
}

/** The answer to a command. */
interface ParsedReceipt {
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

const decodeResults = Schema.decodeUnknownSync(
  Schema.Struct({
    results: Schema.Array(
      Schema.Union([
        Schema.Struct({ resourceId: Schema.String, created: Schema.Boolean, changed: Schema.Boolean }),
        Schema.Struct({ problem: Schema.Struct({ code: Schema.String }) })
      ])
    )
  })
)

const receiptOf = ({ headers, json: body }: Answer): ParsedReceipt => {
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
const unanswered = ["503 service_unavailable", "503 rate_limiter_unavailable", "503 provider_outcome_unknown"]

/** Milliseconds, longer than any outage. */
const timeout = 60_000

export type Api = Pick<Service, "url">

interface Apis {
  /** Returns the API that the next request goes to. */
  readonly api: () => Api
  /** Receives an API that did not serve a request. */
  readonly leave?: (api: Api) => void
  /** Refusals that are expected beside those of failures. */
  readonly refusals?: ReadonlyArray<string>
}

export type Calls = ReturnType<typeof makeCalls>

/** Creates calls with one token; `onAnswer` receives every answer. */
export const makeCalls = (
  { api, leave, refusals = [] }: Apis,
  token: string,
  onAnswer: (answer: Answer) => void = () => {}
) => {
  const counts = { answered: new Map<string, number>(), cut: 0, refused: 0, replayed: 0, longest: 0 }
  const answered = () => [...counts.answered.values()].reduce((sum, count) => sum + count, 0)
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
    for (const began = Date.now(); Date.now() < began + timeout; await sleep(50)) {
      const asked = api()
      const url = `${asked.url}/api${filled}${query ?? ""}`
      const answer = await command(url, token, key, { method, json }).catch(() => undefined)
      if (answer !== undefined) onAnswer(answer)
      if (answer === undefined) counts.cut++
      else if (isAnswer(answer)) {
        counts.longest = Math.max(counts.longest, Date.now() - began)
        return answer
      } else {
        assert.include([...unanswered, ...refusals], kindOf(answer), `${name}: ${answer.status} ${answer.text}`)
        counts.refused++
      }
      leave?.(asked)
    }
    return assert.fail(`${name} under ${key} was not answered for ${timeout} ms`)
  }

  const note = (name: string, answer: Answer) => {
    counts.answered.set(name, (counts.answered.get(name) ?? 0) + 1)
    if (answer.headers["idempotent-replayed"] === "true") counts.replayed++
  }

  return {
    until,
    /** Number of answers by operation, and of cut, refused and replayed requests; the longest time to an answer in ms. */
    counts,
    answered,
    /** Waits until more commands are answered. */
    goOn: () => {
      const before = answered()
      return eventually(() => assert.isAbove(answered(), before + 20))
    },
    note,
    newKey: (name: string) => `mix-${name}-${keys++}`,
    /**
     * Sends a batch under a new key until each item has succeeded; asserts that each answer has the same outcomes of earlier items.
     * Returns the records of the items.
     */
    batch: async (name: string, items: ReadonlyArray<object>, expected: { readonly created: boolean }) => {
      const key = `mix-${name}-${keys++}`
      const done = new Map<number, object>()
      const records = new Array<string>()
      while (done.size < items.length) {
        const answer = await until(name, key, { json: { items } }, ({ status }) => status === 200)
        for (const [index, result] of decodeResults(answer.json).results.entries()) {
          if ("problem" in result) {
            assert.isFalse(done.has(index), answer.text)
            assert.include(unanswered, `503 ${result.problem.code}`)
          } else {
            assert.deepStrictEqual(result, done.get(index) ?? { ...result, ...expected, changed: true })
            done.set(index, result)
            records[index] = result.resourceId
          }
        }
        if (done.size === items.length) note(name, answer)
        else await sleep(50)
      }
      return records
    },
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
