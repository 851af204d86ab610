/** HTTP handlers of notes. */
import { Effect } from "effect"
import { commandHandler, handlersOf, pageHandler } from "../../platform/requests/Handlers.ts"
import { Notes } from "../Notes.ts"

export const handlers = handlersOf("notes", (define) =>
  Effect.map(Notes, (notes) =>
    define({
      listNotes: pageHandler((projectId, { params, query: { cursor, limit } }) =>
        notes.list(projectId, params.dealId, { limit, cursor })
      ),
      createNote: commandHandler((command, { params, payload }, { keyId }) =>
        notes.create(command, keyId, params.dealId, payload)
      ),
      patchNote: commandHandler((command, { params: { dealId, noteId }, payload }) =>
        notes.patch(command, { dealId, id: noteId }, payload)
      ),
      deleteNote: commandHandler((command, { params: { dealId, noteId }, query }) =>
        notes.remove(command, { dealId, id: noteId }, query.expectedVersion)
      )
    })
  )
)
