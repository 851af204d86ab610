/** Samples of messaging, and the records that they refer to. */
import { Effect } from "effect"
import type { Parts } from "../support/TestServer.ts"
import type { Request } from "./Operations.ts"
import type { Reference, Restore } from "./Sample.ts"

const own = "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e8"
const foreignId = "0193f0cb-d4e5-4f70-8192-03a4b5c6d7e9"

/** A sandbox channel, which accepts every message. */
export const fixtures: Parts = {
  channels: [{ id: "chan_own", providerType: "sandbox", displayName: "Own" }],
  conversations: [{ id: own, channelId: "chan_own", address: "own" }]
}

export const foreign: Parts = {
  channels: [{ id: "chan_foreign", providerType: "sandbox", displayName: "Foreign" }],
  conversations: [{ id: foreignId, channelId: "chan_foreign", address: "foreign" }]
}

const reference: Reference = {
  at: ["path", "conversationId"],
  foreign: foreignId,
  code: "conversation_not_found",
  form: "uuid"
}

/** Inserts a message that was sent. */
const putMessage =
  (conversationId: string, channelId: string, id: string): Restore =>
  (sql, projectId) =>
    sql`
      INSERT INTO messages (project_id, id, conversation_id, channel_id, provider_type, address, text, status, attempts,
        attempting, attempt_log, traceparent, created_at, updated_at)
      VALUES (${projectId}, ${id}, ${conversationId}, ${channelId}, 'sandbox', 'own', 'Hello', 'sent', 0, false, '[]', '',
        now(), now())
      ON CONFLICT DO NOTHING`.pipe(Effect.asVoid, Effect.orDie)

export const putForeignMessage = putMessage(foreignId, "chan_foreign", "msg_foreign")

/** `expectedProjectId` differs by project and is left out; `Walk` sets it. */
export const samples: Readonly<Record<string, Request>> = {
  listSources: {
    query: { limit: "10", cursor: null, expectedProjectId: null },
    refusals: ["project_mismatch"]
  },
  getConversationSource: {
    params: { conversationId: own },
    query: { expectedProjectId: null },
    references: [reference],
    refusals: ["project_mismatch"]
  },
  getMessage: {
    params: { conversationId: own, messageId: "msg_own" },
    query: { expectedProjectId: null },
    references: [reference, { at: ["path", "messageId"], foreign: "msg_foreign", code: "message_not_found" }],
    refusals: ["project_mismatch"],
    restore: putMessage(own, "chan_own", "msg_own")
  },
  sendMessage: {
    policy: "messages",
    params: { conversationId: own },
    body: { text: "Your machine is ready." },
    required: ["text"],
    receipt: "message",
    references: [reference],
    refusals: ["project_mismatch", "provider_conflict", "provider_outcome_unknown"]
  }
}
