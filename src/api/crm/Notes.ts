/** The fields and endpoints of the notes on deals (contract §7). */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, Destructive, Examples } from "../Access.ts"
import { changeBy, creationBy, listOf, MutationHeaders, pageQuery } from "../Endpoints.ts"
import { CreatedAt, ExpectedVersion, text, UpdatedAt, Version, VersionText } from "../schema/Fields.ts"
import { DealId, KeyId, NoteId } from "../schema/Ids.ts"
import { DealNotFound, NoteNotFound, VersionConflict } from "../Problems.ts"
import { JsonBody } from "../Requests.ts"

/** The fields that callers write, with their types in the API and in imports. */
export const noteFields = {
  body: text(1, 10_000).annotate({ description: "The text of the note: 1 to 10,000 characters." })
}

export const Note = Schema.Struct({
  id: NoteId,
  dealId: DealId.annotate({ description: "The id of the deal that the note is on." }),
  ...noteFields,
  authorKeyId: KeyId.annotate({ description: "The id of the API key that created the note: 12 characters." }),
  version: Version,
  createdAt: CreatedAt,
  updatedAt: UpdatedAt
}).annotate({ identifier: "DeveloperDealNote" })
export type Note = typeof Note.Type

export const NoteCreate = Schema.Struct(noteFields).annotate({ identifier: "DeveloperDealNoteCreate" })
export type NoteCreate = typeof NoteCreate.Type

export const NotePatch = Schema.Struct({ ...noteFields, expectedVersion: ExpectedVersion }).annotate({
  identifier: "DeveloperDealNotePatch"
})
export type NotePatch = typeof NotePatch.Type

/** The note in the samples of the OpenAPI document. The first start of a service writes it into the demo project. */
export const noteExample = {
  id: "note_0193f0cac3d47e6f8071829304a5b6c7",
  dealId: "deal_espresso",
  body: "Wants to see the machine at work first.",
  authorKeyId: "4fGh8Kp2LmQx",
  version: 1,
  createdAt: "2026-11-20T10:05:00.000Z",
  updatedAt: "2026-11-20T10:05:00.000Z"
}

const receiptExample = { resourceId: noteExample.id, changed: true }

const path = "/v1/developer/crm/deals/:dealId/notes"

export class NotesGroup extends HttpApiGroup.make("notes")
  .add(
    HttpApiEndpoint.get("listNotes", path, {
      params: { dealId: DealId },
      ...listOf(Note, pageQuery(512), DealNotFound)
    })
      .annotate(Access, { scope: "crm.deals.read", module: "crm", policy: "read" })
      .annotate(Examples, { answer: { items: [noteExample], nextCursor: null } })
      .annotate(OpenApi.Summary, "List the notes of a deal")
      .annotate(OpenApi.Description, "Lists the notes of a deal, newest first."),
    HttpApiEndpoint.post("createNote", path, {
      params: { dealId: DealId },
      payload: NoteCreate,
      ...creationBy(MutationHeaders, NoteNotFound)
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "crm.deals.write", module: "crm", policy: "write" })
      .annotate(Examples, { request: { body: noteExample.body }, answer: receiptExample })
      .annotate(OpenApi.Summary, "Write a note on a deal")
      .annotate(
        OpenApi.Description,
        "Adds a text to the notes of a deal. A deal that does not exist answers `note_not_found`."
      ),
    HttpApiEndpoint.patch("patchNote", `${path}/:noteId`, {
      params: { dealId: DealId, noteId: NoteId },
      payload: NotePatch,
      ...changeBy(MutationHeaders, NoteNotFound, VersionConflict)
    })
      .middleware(JsonBody)
      .annotate(Access, { scope: "crm.deals.write", module: "crm", policy: "write" })
      .annotate(Examples, {
        request: { body: "Has seen the machine at work.", expectedVersion: 1 },
        answer: receiptExample
      })
      .annotate(OpenApi.Summary, "Change a note")
      .annotate(
        OpenApi.Description,
        "Replaces the text of a note. `expectedVersion` is its `version`, or the ETag of the last answer. If the note has another " +
          "version, the answer is `version_conflict` with `currentVersion`. If the text is the same, `changed` is false."
      ),
    HttpApiEndpoint.delete("deleteNote", `${path}/:noteId`, {
      params: { dealId: DealId, noteId: NoteId },
      query: { expectedVersion: VersionText },
      ...changeBy(MutationHeaders, NoteNotFound, VersionConflict)
    })
      .annotate(Access, { scope: "crm.deals.write", module: "crm", policy: "write" })
      .annotate(Destructive, true)
      .annotate(Examples, { answer: receiptExample })
      .annotate(OpenApi.Summary, "Delete a note")
      .annotate(
        OpenApi.Description,
        "Deletes a note. If the note has another version than `expectedVersion`, the answer is `version_conflict` with " +
          "`currentVersion`. The ETag is the version that was deleted."
      )
  )
  .annotate(OpenApi.Title, "CRM deal notes")
  .annotate(OpenApi.Description, "Notes on deals, each with a version of its own.") {}
