/** The operations on the clients or the deals of a project with one of its tokens. */
import { Effect } from "effect"
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
