/** HTTP handler of the credential. */
import { Principal } from "../api/Access.ts"
import { groupOf } from "../http/path/Handlers.ts"
import { makeGetCredential } from "./Credential.ts"

export const handlers = groupOf("credential", makeGetCredential, (get, handlers) =>
  handlers({ getCredential: () => Principal.use(({ keyId, projectId }) => get(projectId, keyId)) })
)
