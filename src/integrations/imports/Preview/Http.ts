/** HTTP handler of the import preview. */
import { Effect } from "effect"
import { Principal } from "../../../api/Authentication.ts"
import { handlersOf } from "../../../platform/requests/Handlers.ts"
import { Preview } from "../Preview.ts"

export const handlers = handlersOf("preview", (define) =>
  Effect.map(Preview, ({ preview }) =>
    define({
      previewImport: ({ params }) => Principal.use(({ projectId }) => preview(projectId, params.installationId))
    })
  )
)
