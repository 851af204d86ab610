/** HTTP handlers of pipelines. */
import { Effect } from "effect"
import { handlersOf, pageHandler } from "../../platform/requests/Handlers.ts"
import { Pipelines } from "../Pipelines.ts"

export const handlers = handlersOf("pipelines", (define) =>
  Effect.map(Pipelines, (pipelines) =>
    define({
      listPipelines: pageHandler((projectId, { query: { cursor, limit } }) =>
        pipelines.list(projectId, { limit, cursor })
      )
    })
  )
)
