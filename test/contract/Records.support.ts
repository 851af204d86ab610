/** The operations on the clients or the deals of a project with one of its tokens. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { faultsOf, problemOf, receiptOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { walkPages } from "../support/Pages.ts"
import type { Parts, Seeded, TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"

interface Listed {
  readonly items: ReadonlyArray<{ readonly id: string }>
  readonly nextCursor: string | null
}

export const recordPath = (path: string) => (id: string) => `${path}/${encodeURIComponent(id)}`

/** Returns the calls on records at `path`, with the functions that decode a record and a page. */
export const callsOn =
  <Record, Page extends Listed>(path: string, recordOf: (answer: Answer) => Record, pageOf: (answer: Answer) => Page) =>
  (server: TestServer["Service"], { projectId, token }: Seeded) => {
    const { apply, send } = server
    const at = recordPath(path)
    const get = (id: string) => send({ path: at(id), token })
    const list = (query = "") => send({ path: query === "" ? path : `${path}?${query}`, token })
    return {
      server,
      projectId,
      token,
      create: (json: unknown, key = newKey()) => send({ method: "POST", path, token, key, json }),
      patch: (id: string, json: unknown, key = newKey()) => send({ method: "PATCH", path: at(id), token, key, json }),
      get,
      list,
      /** Applies a project file. */
      apply: (parts: Parts) => apply(projectId, parts),
      /** Reads the record. */
      read: (id: string) => Effect.map(get(id), recordOf),
      page: (query = "") => Effect.map(list(query), pageOf),
      /** Returns the ids of every page, from the first to the last. */
      walk: (query: string, between?: (page: number) => Effect.Effect<unknown>) =>
        walkPages((query) => Effect.map(list(query), pageOf), query, between)
    }
  }

/** A refusal: its status, its code, and the members at fault. */
type Refusal = readonly [status: number, code: string, ...faults: ReadonlyArray<string>]

/** The time of a change. */
export const now = Symbol("now")

/** A patch, and what it does: it is refused, changes nothing, or sets its members and these. */
export type Step = readonly [patch: object, does?: Refusal | "nothing" | object]

const isRefusal = (does: object | string): does is Refusal => Array.isArray(does)

/** Asserts that an answer is the refusal, with all of its faults. */
export const assertRefused = (answer: Answer, [status, code, ...faults]: Refusal) => {
  problemOf(answer, status, code)
  if (faults.length > 0) assert.deepStrictEqual(faultsOf(answer), faults)
}

/** Sends the patches one after the other and asserts what each does; returns the record at first and after each change. */
export const follow = Effect.fnUntraced(function* <R extends { readonly version: number; readonly updatedAt: string }>(
  calls: {
    readonly patch: (id: string, json: unknown) => Effect.Effect<Answer>
    readonly read: (id: string) => Effect.Effect<R>
  },
  id: string,
  steps: ReadonlyArray<Step>
) {
  let before = yield* calls.read(id)
  const records = [before]
  for (const [patch, does = {}] of steps) {
    const what = JSON.stringify(patch)
    const answer = yield* calls.patch(id, patch)
    const after = yield* calls.read(id)
    const refused = isRefusal(does)
    const changed = !refused && does !== "nothing"
    if (refused) assertRefused(answer, does)
    else {
      const receipt = { resourceId: id, changed, version: after.version, replayed: false }
      assert.deepStrictEqual(receiptOf(answer, 200), receipt, what)
    }
    const { updatedAt } = after
    assert.isTrue(updatedAt >= before.updatedAt, what)
    const more = Object.entries(does).map(([member, value]) => [member, value === now ? updatedAt : value])
    const expected = { ...before, ...patch, ...Object.fromEntries(more), version: before.version + 1, updatedAt }
    assert.deepStrictEqual(after, changed ? expected : before, what)
    if (changed) records.push(after)
    before = after
  }
  return records
})
