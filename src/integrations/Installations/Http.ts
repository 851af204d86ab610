/** HTTP handlers of installations. */
import { Effect } from "effect"
import { handlersOf, pageHandler } from "../../platform/requests/Handlers.ts"
import { Installations } from "../Installations.ts"

export const handlers = handlersOf("installations", (define) =>
  Effect.map(Installations, (installations) =>
    define({
      listInstallations: pageHandler((projectId, { query: { cursor, limit } }) =>
        installations.list(projectId, { limit, cursor })
      )
    })
  )
)
