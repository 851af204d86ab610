/** The messages of a project by state, with the actions that settle those of unknown outcome. */
import { Effect } from "effect"
import { messageStatuses } from "../../api/messaging/Messaging.ts"
import { find } from "../../messaging/MessageList.ts"
import { scanLimit } from "../../platform/Search.ts"
import { action, badge, filters, html, nextPage, select, table, time } from "../Html.ts"
import { choiceOf, pageSize, projectPage, textOf } from "../Page.ts"

export const messages = projectPage(
  Effect.fnUntraced(function* ({ project, request, sql }) {
    const status = yield* choiceOf(request, "status", messageStatuses)
    const { items, next } = yield* find(sql, project.id, status, { after: textOf(request, "cursor"), limit: pageSize })
    const settle = (id: string) =>
      html`<div class="actions">
        ${(["sent", "failed"] as const).map((as) =>
          action("/console/settle", request.session.csrf, { project: project.id, message: id, as }, `Settle as ${as}`)
        )}
      </div>`
    const head = ["Message", "Created", "Client", "Channel", "Conversation", "State", "Attempts", ""]
    const cells = items.map((row) => [
      row.messageId,
      time(row.createdAt),
      row.client,
      row.channel,
      row.conversationId,
      badge(row.deliveryStatus),
      row.attempts,
      row.deliveryStatus === "unknown" ? settle(row.messageId) : null
    ])
    return {
      title: `Messages of ${project.name}`,
      body: [
        filters("/console/messages", { project: project.id }, [select("State", "status", messageStatuses, status)]),
        table("Messages, newest first", head, cells, `No messages among the latest ${scanLimit}.`),
        nextPage(
          "/console/messages",
          next === null ? undefined : { project: project.id, status, cursor: next },
          items.length < pageSize ? "Continue the search" : "Older"
        )
      ]
    }
  })
)
