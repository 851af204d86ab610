/** Notes: patches, each at the version that the previous patch left. */
import { Schema } from "effect"
import { NotePatch } from "../../../../src/api/crm/Notes.ts"
import { type Case, command, type Request } from "../Case.ts"
import { dealId, makeNotes, noteId, notesPerConnection } from "../Seed.ts"
import { decodeReceipt } from "./Clients.ts"

const path = (deal: string, note: string) => `/api/v1/developer/crm/deals/${deal}/notes/${note}`

const text = (version: number) =>
  `Called back ${version} times. Wants the larger machine, with the mill and the store apart, and before the summer.`

const patchRequest = (note: string, i: number, expectedVersion: number): Request =>
  command("PATCH", path(dealId(i), note), { body: text(expectedVersion), expectedVersion })

const decodePatch = Schema.decodeUnknownSync(Schema.fromJsonString(NotePatch))

/** Notes that exist from the start and are never patched: without them the first plans would be for an empty table. */
export const resting = { batch: "seed", connections: 500 }
const resting0 = noteId(resting.batch, 0, 0)

const invalid = (body: object, ...locations: ReadonlyArray<string>) => ({
  request: command("PATCH", path(dealId(0), resting0), body),
  status: 400,
  code: "validation_failed",
  locations
})

export const patchNote: Case = {
  // No other connection patches these notes, and a connection waits for each answer, so every version is known.
  traffic: ({ batch }, connection) => {
    let sent = 0
    return () => {
      const i = sent % notesPerConnection
      const version = 1 + Math.floor(sent++ / notesPerConnection)
      return patchRequest(noteId(batch, connection, i), i, version)
    }
  },
  prepare: makeNotes,
  status: 200,
  policy: "write",
  etag: ({ body }) => `"${decodePatch(body).expectedVersion + 1}"`,
  check: decodeReceipt,
  statement: "%UPDATE notes%",
  writes: "notes",
  refusals: [
    { request: patchRequest(resting0, 0, 7), status: 409, code: "version_conflict", currentVersion: 1 },
    { request: patchRequest(resting0, 1, 1), status: 404, code: "note_not_found" },
    { request: patchRequest("note_none", 0, 1), status: 404, code: "note_not_found" },
    invalid({ body: "" }, "body/body", "body/expectedVersion"),
    invalid({ body: text(1), expectedVersion: 0, version: 1 }, "body/expectedVersion", "body/version"),
    {
      request: command("PATCH", path(dealId(0), resting0), { body: text(1), expectedVersion: 1 }, "a b"),
      status: 400,
      code: "validation_failed",
      locations: ["header/idempotency-key"]
    }
  ]
}
