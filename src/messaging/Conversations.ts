/** Conversations (contract §8). Project files create them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Conversation, ConversationFilters } from "../api/messaging/Messaging.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import { statement } from "../sql/Database.ts"
import { pageConditionById, pageLimit, type PageQuery, Pages, type Window } from "../http/pages/Pages.ts"

export const makeListConversations = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const pages = yield* Pages
  return (projectId: ProjectId, { cursor, limit, ...filters }: PageQuery & ConversationFilters) =>
    pages.readById(
      { projectId, operation: "listConversations", filters: { ...filters } },
      { cursor, limit },
      (window) => statement(list(sql, projectId, filters, window))
    )
})

/** Lists conversations by an index that has the filters before the order (`migrations/0024_lists_of_references.ts`). */
const list = (
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
