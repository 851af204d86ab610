/** The API keys of a project, with their scopes and their last use. */
import { DateTime, Effect } from "effect"
import { scopes } from "../../api/Access.ts"
import { type ApiKey, ApiKeys } from "../../platform/auth/ApiKeys.ts"
import { badge, table, time } from "../Html.ts"
import { projectPage } from "../Page.ts"

export const keys = projectPage(
  Effect.fnUntraced(function* ({ project }) {
    const service = yield* ApiKeys
    const items = yield* Effect.orDie(service.list(project.id))
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
      body: [table("Keys, newest first", head, cells, "No keys.")]
    }
  })
)

const stateOf = ({ expiresAt, revokedAt }: ApiKey, now: Date) =>
  revokedAt !== null ? "revoked" : expiresAt <= now ? "expired" : "active"
