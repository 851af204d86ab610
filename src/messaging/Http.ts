import { Effect } from "effect"
import { HttpApiSchema } from "effect/http-api"
import { Principal } from "../api/Access.ts"
import type { ProjectId } from "../api/schema/Ids.ts"
import type { MessageAttempt } from "../api/messaging/Messaging.ts"
import { ProjectMismatch, ProviderConflict, ProviderOutcomeUnknown } from "../api/Problems.ts"
import { command } from "../commands/Command.ts"
import { addAnswerHeaders } from "../platform/CurrentRequest.ts"
import { groupOf, pageAnswer, replayHeader } from "../http/path/Handlers.ts"
import { makeGetReceipt, makeListConversations, makeSend, makeSources, receiptOf, type Sent } from "./Conversations.ts"

const inProject = <A, E, R>(
  expected: string | undefined,
  operation: (projectId: ProjectId) => Effect.Effect<A, E, R>
) =>
  Principal.use(({ projectId }): Effect.Effect<A, E | ProjectMismatch, R> =>
    expected === undefined || expected === projectId ? operation(projectId) : Effect.fail(new ProjectMismatch())
  )

export const handlers = groupOf(
  "messaging",
  Effect.all({ sources: makeSources, conversations: makeListConversations, send: makeSend, receipt: makeGetReceipt }),
  ({ sources, conversations, send, receipt }, handlers) =>
    handlers({
      listSources: ({ query: { expectedProjectId, ...query }, request }) =>
        inProject(expectedProjectId, (projectId) =>
          Effect.flatMap(sources.list(projectId, query), (page) => pageAnswer(page, request))
        ),
      listConversations: ({ query: { expectedProjectId, ...query }, request }) =>
        inProject(expectedProjectId, (projectId) =>
          Effect.flatMap(conversations(projectId, query), (page) => pageAnswer(page, request))
        ),
      getConversationSource: ({ params, query }) =>
        inProject(query.expectedProjectId, (projectId) => sources.ofConversation(projectId, params.conversationId)),
      sendMessage: (request) =>
        inProject(request.payload.expectedProjectId, (projectId) =>
          Effect.flatMap(
            send(command(projectId, request), request.params.conversationId, request.payload.text),
            answerOf
          )
        ),
      getMessage: ({ params, query }) =>
        inProject(query.expectedProjectId, (projectId) => receipt(projectId, params.conversationId, params.messageId))
    })
)

const answerOf = Effect.fnUntraced(function* ({ message, replayed }: Sent) {
  const { deliveryStatus, messageId, waitMillis } = message
  const wait = waitMillis ?? undefined
  // If the process that makes an attempt dies, the message stays pending until another process claims it. Once the lease has
  // ended, callers see the outcome as unknown.
  const isUnknown = deliveryStatus === "unknown" || (deliveryStatus === "pending" && wait !== undefined && wait <= 0)
  const replay = replayHeader(replayed)
  if (isUnknown) {
    yield* addAnswerHeaders({ ...replay, "retry-after": String(retryAfter(wait)) })
    return yield* new ProviderOutcomeUnknown({ messageId })
  }
  if (deliveryStatus === "failed") {
    yield* addAnswerHeaders({ ...replay })
    return yield* new ProviderConflict({ detail: ProviderConflict.detail(reasonOf(message.attempts)), messageId })
  }
  return HttpApiSchema.withHeaders({ body: receiptOf(message), headers: replay })
})

/** Whole seconds until the next attempt; 60 if no attempt follows. */
const retryAfter = (wait: number | undefined) => (wait === undefined ? 60 : Math.max(1, Math.ceil(wait / 1000)))

const reasonOf = (attempts: ReadonlyArray<MessageAttempt>) => {
  const last = attempts.at(-1)
  return last?.errorCode == null ? ": its channel is revoked" : ` (${last.errorCode})`
}
