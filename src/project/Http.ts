import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import { Api } from "../api/Api.ts"
import { Principal } from "../api/Authentication.ts"
import { groupOf, withoutEncoding } from "../http/answers/Groups.ts"
import { makeGetCredential } from "./Credential.ts"

export const handlers = groupOf(makeGetCredential, (get) =>
  HttpApiBuilder.group(Api, "credential", (handlers) =>
    handlers.handleAll(
      withoutEncoding({ getCredential: () => Principal.use(({ keyId, projectId }) => get(projectId, keyId)) })
    )
  )
)
