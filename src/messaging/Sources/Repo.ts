/** SQL reads of sources. */
import type { SqlClient } from "effect/sql"
import type { ConversationId, ProjectId } from "../../api/Ids.ts"
import type { Source } from "../../api/messaging/Messaging.ts"
import { selected } from "../../platform/Columns.ts"
import { following, type Window } from "../../platform/Pages.ts"

/** A row of a source; its capabilities derive from its status. */
export interface Row extends Omit<Source, "capabilities" | "connectedAt"> {
  readonly createdAt: string
}

const columns = selected({
  id: "sources.id",
  channelId: "sources.channel_id",
  providerType: "provider_type",
  displayName: "display_name",
  status: "status",
  createdAt: ["created_at", "timestamptz"],
  revokedAt: ["revoked_at", "timestamptz"]
})

export const list = (sql: SqlClient.SqlClient, projectId: ProjectId, { after, limit }: Window) => sql<Row>`
  SELECT ${sql.literal(columns)} FROM sources
  WHERE project_id = ${projectId} ${following(sql, "sources", projectId, after)}
  ORDER BY created_at DESC, id DESC
  LIMIT ${limit}`

const observed = selected({ observedAt: ["observed_at", "timestamptz"] })

export const ofConversation = (sql: SqlClient.SqlClient, projectId: ProjectId, id: ConversationId) =>
  sql<Row & { readonly observedAt: string }>`
    SELECT ${sql.literal(`${columns}, ${observed}`)} FROM conversations
      JOIN sources ON sources.project_id = conversations.project_id AND sources.channel_id = conversations.channel_id
    WHERE conversations.project_id = ${projectId} AND conversations.id = ${id}`
