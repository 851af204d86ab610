/** HTTP handler of the import preview. */
import { Effect } from "effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../../api/Api.ts"
import { Principal } from "../../api/Authentication.ts"
import { Preview } from "../Preview.ts"

export const layer = HttpApiBuilder.group(Api, "preview", (handlers) =>
  Effect.map(Preview, ({ preview }) =>
    handlers.handleAll({
      previewImport: ({ params }) => Principal.use(({ projectId }) => preview(projectId, params.installationId))
    })
  )
)
