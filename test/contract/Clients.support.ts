/** A project of the test's own, with the operations on its clients. */
import { Effect } from "effect"
import { clientOf, pageOf, receiptOf } from "../support/ContractAnswers.ts"
import type { Answer } from "../support/ContractHttp.ts"
import { walkPages } from "../support/Pages.ts"
import { type Parts, type Seeded, TestServer } from "../support/TestServer.ts"
import { newKey } from "./Requests.ts"

export const path = "/api/v1/developer/crm/clients"

export const clientPath = (id: string) => `${path}/${encodeURIComponent(id)}`

/** Calls on a project's clients with one of its tokens. */
export const callsOf = (server: TestServer["Service"], { projectId, token }: Seeded) => {
  const { apply, send } = server
  const create = (json: unknown, key = newKey()) => send({ method: "POST", path, token, key, json })
  const patch = (id: string, json: unknown, key = newKey()) =>
    send({ method: "PATCH", path: clientPath(id), token, key, json })
  const get = (id: string) => send({ path: clientPath(id), token })
  const list = (query = "") => send({ path: query === "" ? path : `${path}?${query}`, token })
  return {
    server,
    projectId,
    token,
    create,
    patch,
    get,
    list,
    /** Changes the project by a file. */
    apply: (parts: Parts) => apply(projectId, parts),
    /** The id of a new client. */
    created: (json: object = {}) =>
      Effect.map(create({ displayName: "New", ...json }), (answer) => receiptOf(answer, 201).resourceId),
    /** The client as it is now. */
    read: (id: string) => Effect.map(get(id), clientOf),
    page: (query = "") => Effect.map(list(query), pageOf),
    /** The ids of every page, from the first to the last. */
    walk: (query: string, between?: (page: number) => Effect.Effect<unknown>) =>
      walkPages((query) => Effect.map(list(query), pageOf), query, between)
  }
}

/** A new project. */
export const open = Effect.fnUntraced(function* (parts?: Parts) {
  const server = yield* TestServer
  return callsOf(server, yield* server.seed(parts))
})

/** Runs as many at once as there are. */
export const atOnce = <A, E, R>(times: number, run: (index: number) => Effect.Effect<A, E, R>) =>
  Effect.forEach(
    Array.from({ length: times }, (_, index) => index),
    run,
    { concurrency: "unbounded" }
  )

export const statusesOf = (answers: ReadonlyArray<Answer>) => {
  const counts: Record<string, number> = {}
  for (const { status } of answers) counts[status] = (counts[status] ?? 0) + 1
  return counts
}
