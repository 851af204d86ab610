/** The messages of a project's conversations by state, with the actions that settle those of unknown outcome. */
import { Effect } from "effect"
import { messageStatuses, type MessageStatus } from "../../api/messaging/Messaging.ts"
import { selected } from "../../platform/Columns.ts"
import { action, badge, filters, html, nextPage, select, table, time } from "../Html.ts"
import { choiceOf, pageSize, projectPage, textOf } from "../Page.ts"

/** Maximum number of messages that a page of a filtered list scans; those of unknown outcome have an index. */
const scanLimit = 10_000

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

export const messages = projectPage(
  Effect.fnUntraced(function* ({ project, request, sql }) {
    const status = yield* choiceOf(request, "status", messageStatuses)
    const cursor = textOf(request, "cursor")
    const rows = yield* sql<Row>`
    WITH scanned AS MATERIALIZED (
      SELECT project_id, id, conversation_id, channel_id, status, attempts, created_at FROM messages
      WHERE project_id = ${project.id} ${status === "unknown" ? sql`AND status = 'unknown'` : sql``}
        AND (${cursor}::text IS NULL OR (created_at, id) < (
          SELECT created_at, id FROM messages WHERE project_id = ${project.id} AND id = ${cursor}::text))
      ORDER BY created_at DESC, id DESC LIMIT ${status === null ? pageSize + 1 : scanLimit}::int
    ),
    found AS (
      SELECT * FROM scanned WHERE ${status}::text IS NULL OR status = ${status}
      ORDER BY created_at DESC, id DESC LIMIT ${pageSize + 1}::int
    )
    SELECT ${sql.literal(columns)} FROM found ORDER BY found.created_at DESC, found.id DESC`
    const settle = (id: string) =>
      html`<div class="actions">
        ${(["sent", "failed"] as const).map((as) =>
          action("/console/settle", request.session.csrf, { project: project.id, message: id, as }, `Settle as ${as}`)
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
    return {
      title: `Messages of ${project.name}`,
      body: [
        filters("/console/messages", { project: project.id }, [select("State", "status", messageStatuses, status)]),
        table("Messages, newest first", head, cells, `No messages among the latest ${scanLimit}.`),
        nextPage(
          "/console/messages",
          rows.length > pageSize ? { project: project.id, status, cursor: shown.at(-1)?.id } : undefined
        )
      ]
    }
  })
)
