/** Conversations and their sources: the project's channels as callers see them (contract §8). Project files create them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Conversation, ConversationFilters, ConversationSource, Source } from "../api/messaging/Messaging.ts"
import type { ConversationId, ProjectId } from "../api/schema/Ids.ts"
import { statement } from "../sql/Database.ts"
import { pageCondition, pageConditionById, pageLimit, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"
import { ConversationNotFound } from "../api/Problems.ts"
import { selectList } from "../sql/Columns.ts"

export const makeListConversations = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  return (projectId: ProjectId, { cursor, limit, ...filters }: PageQuery & ConversationFilters) =>
    pages.readById(
      { projectId, operation: "listConversations", filters: { ...filters } },
      { cursor, limit },
      (window) => statement(conversations(sql, projectId, filters, window))
    )
})

/** Lists conversations by an index that has the filters before the order (`migrations/0024_lists_of_references.ts`). */
const conversations = (
  sql: SqlClient.SqlClient,
  projectId: ProjectId,
  { clientId, sourceId }: ConversationFilters,
  window: Window
) => {
  const ofClient = clientId === undefined ? sql.literal("") : sql`AND client_id = (SELECT ${clientId}::text)`
  const ofSource =
    sourceId === undefined
      ? sql.literal("")
      : sql`
      AND channel_id = (SELECT id FROM channels WHERE project_id = ${projectId} AND source_id = ${sourceId}) AND id > ''`
  return sql<Conversation>`
    SELECT page.id, page.client_id AS "clientId", (
      SELECT source_id FROM channels WHERE channels.project_id = ${projectId} AND channels.id = page.channel_id
    ) AS "sourceId"
    FROM (
      SELECT id, client_id, channel_id FROM conversations
      WHERE project_id = ${projectId} ${ofClient} ${ofSource} ${pageConditionById(sql, window.after)}
      ORDER BY id ${pageLimit(sql, window)}
    ) page ORDER BY id`
}

/** Makes the operations that read sources. The list is newest first, and includes revoked sources. */
export const makeSources = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  return {
    list: (projectId: ProjectId, query: PageQuery) =>
      Effect.map(
        pages.read({ projectId, operation: "listSources", filters: {} }, query, (window) =>
          statement(sources(sql, projectId, window))
        ),
        ({ items, nextCursor }) => ({ items: items.map(sourceOf), nextCursor })
      ),
    /** Returns the source on which the conversation was last seen. */
    ofConversation: Effect.fnUntraced(function* (projectId: ProjectId, id: ConversationId) {
      const [found] = yield* statement(ofConversation(sql, projectId, id))
      if (found === undefined) return yield* new ConversationNotFound()
      const { observedAt, ...row } = found
      return { conversationId: id, source: sourceOf(row), observedAt } satisfies ConversationSource
    })
  }
})

const sourceOf = ({ createdAt, revokedAt, ...row }: Row): Source => ({
  ...row,
  capabilities: { textReply: row.status === "active" },
  connectedAt: createdAt,
  revokedAt
})

interface Row extends Omit<Source, "capabilities" | "connectedAt"> {
  readonly createdAt: string
}

const columns = selectList({
  id: "sources.id",
  channelId: "sources.channel_id",
  providerType: "provider_type",
  displayName: "display_name",
  status: "status",
  createdAt: ["created_at", "timestamptz"],
  revokedAt: ["revoked_at", "timestamptz"]
})

const sources = (sql: SqlClient.SqlClient, projectId: ProjectId, window: Window) => sql<Row>`
  SELECT ${sql.literal(columns)} FROM sources
  WHERE project_id = ${projectId} ${pageCondition(sql, window.after)}
  ORDER BY created_at DESC, id DESC
  ${pageLimit(sql, window)}`

const observed = selectList({ observedAt: ["observed_at", "timestamptz"] })

const ofConversation = (sql: SqlClient.SqlClient, projectId: ProjectId, id: ConversationId) =>
  sql<Row & { readonly observedAt: string }>`
    SELECT ${sql.literal(`${columns}, ${observed}`)} FROM conversations
      JOIN sources ON sources.project_id = conversations.project_id AND sources.channel_id = conversations.channel_id
    WHERE conversations.project_id = ${projectId} AND conversations.id = ${id}`
