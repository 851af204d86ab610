/** HTTP handlers of notes. */
import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../../api/Api.ts"
import { Principal } from "../../api/Authentication.ts"
import { command } from "../../platform/idempotency/Idempotency.ts"
import { pageAnswer, receiptAnswer } from "../../platform/Responses.ts"
import { Notes } from "../Notes.ts"

export const layer = HttpApiBuilder.group(Api, "notes", (handlers) =>
  Effect.map(Notes, (notes) =>
    handlers.handleAll({
      listNotes: ({ params, query: { cursor, limit }, request }) =>
        Principal.use(({ projectId }) =>
          Effect.flatMap(notes.list(projectId, params.dealId, { limit, cursor }), (page) => pageAnswer(page, request))
        ),
      createNote: (request) =>
        Principal.use(({ keyId, projectId }) =>
          Effect.map(
            notes.create(command(projectId, request), keyId, request.params.dealId, request.payload),
            receiptAnswer
          )
        ),
      patchNote: (request) =>
        Principal.use(({ projectId }) =>
          Effect.map(
            notes.patch(
              command(projectId, request),
              { dealId: request.params.dealId, id: request.params.noteId },
              request.payload
            ),
            receiptAnswer
          )
        ),
      deleteNote: (request) =>
        Principal.use(({ projectId }) =>
          Effect.map(
            notes.remove(
              command(projectId, request),
              { dealId: request.params.dealId, id: request.params.noteId },
              request.query.expectedVersion
            ),
            receiptAnswer
          )
        )
    })
  )
)
