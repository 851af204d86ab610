import { Effect } from "effect"
import { scopes } from "../../api/Access.ts"
import { ApiKeys } from "../../http/auth/ApiKeys.ts"
import { stateOf } from "../../http/auth/EndingKeys.ts"
import { action, badge, idOf } from "../Html.ts"
import { listOf, orNotFound, projectPage } from "../Page.ts"

export const keys = projectPage(
  Effect.fnUntraced(function* ({ project, range, request, time }) {
    const service = yield* ApiKeys
    const { csrf } = request.session
    return listOf(request, {
      title: `API keys of ${project.name}`,
      caption: "Keys, newest first",
      empty: "No keys.",
      found: yield* orNotFound(service.list(project.id, range)),
      columns: {
        Key: ({ keyId }) => idOf(keyId),
        Name: ({ name }) => name,
        State: (key) => badge(stateOf(key, request.session.now)),
        Action: ({ keyId: key, revokedAt }) =>
          revokedAt === null ? action("key.revoke", csrf, { project: project.id, key }, "Revoke") : null,
        "Last used": ({ lastUsedAt }) => time(lastUsedAt) ?? "never",
        Expires: ({ expiresAt }) => time(expiresAt),
        Created: ({ createdAt }) => time(createdAt),
        Member: ({ memberId }) => idOf(memberId),
        Scopes: (key) => (key.scopes.length === scopes.length ? "all" : key.scopes.join(", "))
      }
    })
  })
)
