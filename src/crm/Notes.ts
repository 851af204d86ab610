/** Notes on deals. A change or removal names the version that the caller has read (contract §7). */
import { Clock, Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { Note, NoteCreate, NotePatch } from "../api/crm/Notes.ts"
import { type DealId, type KeyId, NoteId, type ProjectId } from "../api/Ids.ts"
import {
  type CursorInvalid,
  DealNotFound,
  type IdempotencyKeyReused,
  type NoteNotFound,
  type ServiceUnavailable,
  type VersionConflict
} from "../api/Problems.ts"
import { statement } from "../platform/Database.ts"
import { grouped } from "../platform/idempotency/Grouped.ts"
import type { Command, Outcome } from "../platform/idempotency/Idempotency.ts"
import { mutate } from "../platform/idempotency/Mutate.ts"
import { Mutations } from "../platform/idempotency/Mutations.ts"
import { newId } from "../platform/NewId.ts"
import { type Page, Pages } from "../platform/Pages.ts"
import { create, list, type NotePath, patch, remove } from "./Notes/Repo.ts"

export class Notes extends Context.Service<
  Notes,
  {
    /** Lists the notes of a deal, newest first, up to `limit` on a page. */
    readonly list: (
      projectId: ProjectId,
      dealId: DealId,
      query: { readonly limit: number; readonly cursor: string | undefined }
    ) => Effect.Effect<Page<Note>, CursorInvalid | DealNotFound | ServiceUnavailable>

    readonly create: (
      command: Command,
      author: KeyId,
      dealId: DealId,
      note: NoteCreate
    ) => Effect.Effect<Outcome, IdempotencyKeyReused | NoteNotFound | ServiceUnavailable>

    /** Replaces the text of a note, unless its version differs from the expected one. */
    readonly patch: (
      command: Command,
      path: NotePath,
      patch: NotePatch
    ) => Effect.Effect<Outcome, IdempotencyKeyReused | NoteNotFound | VersionConflict | ServiceUnavailable>

    /** Removes a note, unless its version differs from the expected one. */
    readonly remove: (
      command: Command,
      path: NotePath,
      expectedVersion: number
    ) => Effect.Effect<Outcome, IdempotencyKeyReused | NoteNotFound | VersionConflict | ServiceUnavailable>
  }
>()("developer-api/crm/Notes") {
  static readonly layer = Layer.effect(
    Notes,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const mutations = yield* Mutations
      const pages = yield* Pages
      const creating = grouped(mutations, create(sql))
      const patching = grouped(mutations, patch(sql))
      const now = Effect.map(Clock.currentTimeMillis, (millis) => new Date(millis))

      return {
        list: (projectId, dealId, query) =>
          pages.read({ projectId, operation: "listNotes", filters: { dealId } }, query, (window) =>
            Effect.flatMap(statement(list(sql, projectId, dealId, window)), ({ dealExists, notes }) =>
              dealExists
                ? Effect.succeed(notes)
                : Effect.fail(new DealNotFound({ detail: "The project has no deal with the id in the path." }))
            )
          ),
        create: Effect.fnUntraced(function* (command, authorKeyId, dealId, { body }) {
          const id = NoteId.make(yield* newId("note"))
          return yield* creating(command, yield* now, { id, dealId, body, authorKeyId })
        }),
        patch: Effect.fnUntraced(function* (command, path, changes) {
          return yield* patching(command, yield* now, { ...path, ...changes })
        }),
        remove: Effect.fnUntraced(function* (command, path, expectedVersion) {
          return yield* mutate(mutations, command, remove(sql, command.projectId, path, expectedVersion, yield* now))
        })
      }
    })
  )
}
