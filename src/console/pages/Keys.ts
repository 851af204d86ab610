/** The API keys of a project, with their scopes and their last use. */
import { DateTime, Effect } from "effect"
import { scopes } from "../../api/Access.ts"
import { type ApiKey, ApiKeys } from "../../platform/auth/ApiKeys.ts"
import { badge, nextPage, table, time } from "../Html.ts"
import { pageSize, projectPage, textOf } from "../Page.ts"

export const keys = projectPage(
  Effect.fnUntraced(function* ({ project, request }) {
    const service = yield* ApiKeys
    const range = { after: textOf(request, "cursor"), limit: pageSize }
    const { items, next } = yield* Effect.orDie(service.list(project.id, range))
    const now = yield* DateTime.nowAsDate
    const head = ["Key", "Name", "State", "Last used", "Expires", "Created", "Member", "Scopes"]
    const cells = items.map((key) => [
      key.keyId,
      key.name,
      badge(stateOf(key, now)),
      key.lastUsedAt === null ? "never" : time(key.lastUsedAt),
      time(key.expiresAt),
      time(key.createdAt),
      key.memberId,
      key.scopes.length === scopes.length ? "all" : key.scopes.join(", ")
    ])
    return {
      title: `API keys of ${project.name}`,
      body: [
        table("Keys, newest first", head, cells, "No keys."),
        nextPage("/console/keys", next === null ? undefined : { project: project.id, cursor: next })
      ]
    }
  })
)

const stateOf = ({ expiresAt, revokedAt }: ApiKey, now: Date) =>
  revokedAt !== null ? "revoked" : expiresAt <= now ? "expired" : "active"
