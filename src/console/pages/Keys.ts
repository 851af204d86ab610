/** The API keys of a project: their rights, and when they were last used. */
import { Clock, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { scopes } from "../../api/Access.ts"
import { type ApiKey, ApiKeys } from "../../platform/auth/ApiKeys.ts"
import { badge, table, time } from "../Html.ts"
import { type Asked, type Content, projectOf } from "../Page.ts"

export const keys = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, asked: Asked) {
  const project = yield* projectOf(sql, asked)
  const service = yield* ApiKeys
  const items = yield* Effect.orDie(service.list(project.id))
  const now = new Date(yield* Clock.currentTimeMillis)
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
  const content: Content = {
    title: `API keys of ${project.name}`,
    project: project.id,
    body: [table("Keys, the newest first", head, cells, "No keys.")]
  }
  return content
})

const stateOf = ({ expiresAt, revokedAt }: ApiKey, now: Date) =>
  revokedAt !== null ? "revoked" : expiresAt <= now ? "expired" : "active"
