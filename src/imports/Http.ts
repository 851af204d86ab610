/** HTTP handler of the import preview. */
import { Principal } from "../api/Access.ts"
import { groupOf } from "../http/path/Handlers.ts"
import { Preview } from "./Preview.ts"

export const handlers = groupOf("preview", Preview, ({ preview }, handlers) =>
  handlers({
    previewImport: ({ params }) => Principal.use(({ projectId }) => preview(projectId, params.installationId))
  })
)
