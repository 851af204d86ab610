/** The import preview over HTTP. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { Api } from "../../api/Api.ts"
import { Principal } from "../../api/Authentication.ts"
import type { ImportPreview } from "../../api/integrations/Preview.ts"
import { jsonAnswer } from "../../platform/Responses.ts"
import { Preview } from "../Preview.ts"

export const layer = HttpApiBuilder.group(
  Api,
  "preview",
  Effect.fn(function* (handlers) {
    const { preview } = yield* Preview
    return handlers.handleAll({
      previewImport: Effect.fnUntraced(function* ({ params }) {
        const { projectId } = yield* Principal
        const answer: ImportPreview = yield* preview(projectId, params.installationId)
        return jsonAnswer(200, answer)
      })
    })
  })
)
