/** Samples of messaging, and the records that they refer to. */
import type { Parts } from "../support/TestServer.ts"
import { operation } from "./Requests.ts"
import type { Reference, Sample } from "./Sample.ts"

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

/** `expectedProjectId` differs by project and is left out; other tests cover it. */
export const samples: Readonly<Record<"listSources" | "getConversationSource" | "sendMessage", Sample>> = {
  listSources: {
    ...operation("GET", "/v1/developer/messaging/sources", "messaging.read", "messaging"),
    query: { limit: "10", cursor: null, expectedProjectId: null },
    refusals: ["project_mismatch"]
  },
  getConversationSource: {
    ...operation("GET", "/v1/developer/messaging/conversations/{conversationId}/source", "messaging.read", "messaging"),
    params: { conversationId: own },
    query: { expectedProjectId: null },
    references: [reference],
    refusals: ["project_mismatch"]
  },
  sendMessage: {
    ...operation(
      "POST",
      "/v1/developer/messaging/conversations/{conversationId}/messages",
      "messaging.write",
      "messaging"
    ),
    policy: "messages",
    params: { conversationId: own },
    body: { text: "Your machine is ready." },
    required: ["text"],
    key: "printable",
    receipt: "message",
    references: [reference],
    refusals: ["project_mismatch", "provider_conflict", "provider_outcome_unknown"]
  }
}
