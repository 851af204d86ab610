/** Messages of a project's conversations by state; those of unknown outcome are settled here. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { messageStatuses, type MessageStatus } from "../../api/messaging/Messaging.ts"
import { selected } from "../../platform/Columns.ts"
import { action, badge, filters, html, older, select, table, time } from "../Html.ts"
import { type Asked, type Content, pageSize, projectOf, textOf, wordOf } from "../Page.ts"

/** Messages that a page of a filtered list looks at; those of unknown outcome have an index. */
const looksAt = 10_000

interface Row {
  readonly id: string
  readonly conversationId: string
  readonly client: string | null
  readonly channel: string
  readonly status: MessageStatus
  readonly attempts: number
  readonly createdAt: string
}

const columns = `found.id, found.conversation_id AS "conversationId", (
    SELECT display_name FROM clients
    WHERE clients.project_id = found.project_id AND clients.id = (
      SELECT client_id FROM conversations
      WHERE conversations.project_id = found.project_id AND conversations.id = found.conversation_id)
  ) AS client, (
    SELECT display_name FROM channels WHERE channels.project_id = found.project_id AND channels.id = found.channel_id
  ) AS channel, found.status, found.attempts, ${selected({ createdAt: ["found.created_at", "timestamptz"] })}`

export const messages = Effect.fnUntraced(function* (sql: SqlClient.SqlClient, asked: Asked) {
  const project = yield* projectOf(sql, asked)
  const status = yield* wordOf(asked, "status", messageStatuses)
  const cursor = textOf(asked, "cursor")
  const rows = yield* sql<Row>`
    WITH looked AS MATERIALIZED (
      SELECT project_id, id, conversation_id, channel_id, status, attempts, created_at FROM messages
      WHERE project_id = ${project.id} ${status === "unknown" ? sql`AND status = 'unknown'` : sql``}
        AND (${cursor}::text IS NULL OR (created_at, id) < (
          SELECT created_at, id FROM messages WHERE project_id = ${project.id} AND id = ${cursor}::text))
      ORDER BY created_at DESC, id DESC LIMIT ${status === null ? pageSize + 1 : looksAt}::int
    ),
    found AS (
      SELECT * FROM looked WHERE ${status}::text IS NULL OR status = ${status}
      ORDER BY created_at DESC, id DESC LIMIT ${pageSize + 1}::int
    )
    SELECT ${sql.literal(columns)} FROM found ORDER BY found.created_at DESC, found.id DESC`
  const settle = (id: string) =>
    html`<div class="actions">
      ${(["sent", "failed"] as const).map((as) =>
        action("/console/settle", asked.session.csrf, { project: project.id, message: id, as }, `Settle as ${as}`)
      )}
    </div>`
  const shown = rows.slice(0, pageSize)
  const head = ["Message", "Created", "Client", "Channel", "Conversation", "State", "Attempts", ""]
  const cells = shown.map((row) => [
    row.id,
    time(row.createdAt),
    row.client,
    row.channel,
    row.conversationId,
    badge(row.status),
    row.attempts,
    row.status === "unknown" ? settle(row.id) : null
  ])
  const content: Content = {
    title: `Messages of ${project.name}`,
    project: project.id,
    body: [
      filters("/console/messages", { project: project.id }, [select("State", "status", messageStatuses, status)]),
      table("Messages, the newest first", head, cells, `No messages among the latest ${looksAt}.`),
      ...(rows.length > pageSize
        ? [older("/console/messages", { project: project.id, status, cursor: shown.at(-1)?.id })]
        : [])
    ]
  }
  return content
})
