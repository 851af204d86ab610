/** Sources of conversations: the project's channels as callers see them (contract §8). */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ConversationId, ProjectId } from "../api/Ids.ts"
import type { ConversationSource, Source } from "../api/messaging/Messaging.ts"
import { ConversationNotFound, type CursorInvalid, type ServiceUnavailable } from "../api/Problems.ts"
import { statement } from "../platform/Database.ts"
import { type Page, Pages } from "../platform/Pages.ts"
import { list, ofConversation, type Row } from "./Sources/Repo.ts"

export class Sources extends Context.Service<
  Sources,
  {
    /** Lists the sources of a project, revoked ones included, newest first, up to `limit` on a page. */
    readonly list: (
      projectId: ProjectId,
      query: { readonly limit: number; readonly cursor: string | undefined }
    ) => Effect.Effect<Page<Source>, CursorInvalid | ServiceUnavailable>

    /** Returns the source on which the conversation was last seen. */
    readonly ofConversation: (
      projectId: ProjectId,
      id: ConversationId
    ) => Effect.Effect<ConversationSource, ConversationNotFound | ServiceUnavailable>
  }
>()("developer-api/messaging/Sources") {
  static readonly layer = Layer.effect(
    Sources,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const pages = yield* Pages
      return {
        list: (projectId, query) =>
          Effect.map(
            pages.read({ projectId, operation: "listSources", filters: {} }, query, (window) =>
              statement(list(sql, projectId, window))
            ),
            ({ items, nextCursor }) => ({ items: items.map(sourceOf), nextCursor })
          ),
        ofConversation: Effect.fnUntraced(function* (projectId, id) {
          const [found] = yield* statement(ofConversation(sql, projectId, id))
          if (found === undefined) {
            return yield* new ConversationNotFound({
              detail: "The project has no conversation with the id in the path."
            })
          }
          const { observedAt, ...row } = found
          return { conversationId: id, source: sourceOf(row), observedAt }
        })
      }
    })
  )
}

const sourceOf = ({ createdAt, revokedAt, ...row }: Row): Source => ({
  ...row,
  capabilities: { textReply: row.status === "active" },
  connectedAt: createdAt,
  revokedAt
})
