/** A project with deals, and the operations on the notes of one of them. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { notePageOf, receiptOf } from "../support/ContractAnswers.ts"
import { put, withDeals } from "../support/Rows.ts"
import { type Seeded, TestServer } from "../support/TestServer.ts"
import { callsOn } from "./Records.support.ts"
import { newKey } from "./Requests.ts"

/** Returns calls on the notes of a deal with one of the tokens of its project. */
export const callsOf = (server: TestServer["Service"], seeded: Seeded, dealId: string) => {
  const { projectId, token } = seeded
  const { send, sql } = server
  const path = `/api/v1/developer/crm/deals/${encodeURIComponent(dealId)}/notes`
  const { create, page, patch } = callsOn(path, notePageOf, notePageOf)(server, seeded)
  return {
    server,
    projectId,
    token,
    page,
    create,
    patch,
    remove: (id: string, expectedVersion: number) =>
      send({
        method: "DELETE",
        path: `${path}/${encodeURIComponent(id)}?expectedVersion=${expectedVersion}`,
        token,
        key: newKey()
      }),
    /** Creates a note; returns its id. */
    created: (body = "New") => Effect.map(create({ body }), (answer) => receiptOf(answer, 201).resourceId),
    /** Reads the note; undefined if there is none. */
    find: (id: string) => Effect.map(page("limit=100"), ({ items }) => items.find((note) => note.id === id)),
    /** Inserts a note by SQL, as no command can choose its id and its time. */
    insert: ({ createdAt, id }: { readonly id: string; readonly createdAt: string }) =>
      put(sql, "notes", {
        project_id: projectId,
        id,
        deal_id: dealId,
        body: "Inserted",
        author_key_id: keyIdOf(token),
        created_at: createdAt,
        updated_at: createdAt
      }),
    /** Returns the calls on another deal's notes, or with another token. */
    but: (change: { readonly dealId?: string; readonly token?: string }) =>
      callsOf(server, { projectId, token: change.token ?? token }, change.dealId ?? dealId)
  }
}

/** Returns the part of a token that is the id of its key (contract §3). */
export const keyIdOf = (token: string) => /^dk_([0-9A-Za-z]{12})_/.exec(token)?.[1] ?? assert.fail("not a token")

/** Creates a project with deals; returns the calls on the notes of the first deal. */
export const open = Effect.fnUntraced(function* (dealId = "deal", ...others: ReadonlyArray<string>) {
  const server = yield* TestServer
  return callsOf(server, yield* server.seed(withDeals(dealId, ...others)), dealId)
})
