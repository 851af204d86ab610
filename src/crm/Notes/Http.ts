/** Notes over HTTP. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../api/Api.ts"
import { Principal } from "../../api/Authentication.ts"
import type { Note } from "../../api/crm/Notes.ts"
import { command } from "../../platform/idempotency/Idempotency.ts"
import { pageAnswer, receiptAnswer } from "../../platform/Responses.ts"
import { Notes } from "../Notes.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "notes",
  Effect.fn(function* (handlers) {
    const notes = yield* Notes
    return handlers.handleAll({
      listNotes: Effect.fnUntraced(function* ({ params, query: { cursor, limit }, request }) {
        const { projectId } = yield* Principal
        return yield* pageAnswer<Note>(request, yield* notes.list(projectId, params.dealId, { limit, cursor }))
      }),
      createNote: Effect.fnUntraced(function* (request) {
        const { keyId, projectId } = yield* Principal
        const { params, payload } = request
        return receiptAnswer(
          201,
          yield* notes.create(command(projectId, "createNote", request), keyId, params.dealId, payload)
        )
      }),
      patchNote: Effect.fnUntraced(function* (request) {
        const { projectId } = yield* Principal
        const { dealId, noteId: id } = request.params
        return receiptAnswer(
          200,
          yield* notes.patch(command(projectId, "patchNote", request), { dealId, id }, request.payload)
        )
      }),
      deleteNote: Effect.fnUntraced(function* (request) {
        const { projectId } = yield* Principal
        const { dealId, noteId: id } = request.params
        return receiptAnswer(
          200,
          yield* notes.remove(command(projectId, "deleteNote", request), { dealId, id }, request.query.expectedVersion)
        )
      })
    })
  })
)
