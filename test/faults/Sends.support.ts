/** Sends to a provider of the test, for tests of failures around them. */
import { assert } from "@effect/vitest"
import { assertMatches } from "../support/Matches.ts"
import { botToken, conversations, messagesPath, telegramChannel, text } from "../contract/Messages.support.ts"
import { type Answering, receiver } from "../integrations/deliveries/Deliveries.support.ts"
import { opened } from "../support/Finalizers.ts"
import { project } from "./Projects.support.ts"
import { type Answer, type Call, command, expectProblem } from "./Requests.support.ts"

type File = Parameters<typeof project>[1]

/** Starts a provider, and creates a project with one conversation, over telegram, so that nothing is sent twice. */
export const openProject = async (databaseUrl: string, answering: Answering, file: File = {}) => {
  const provider = await opened(receiver(answering))
  const token = await project(databaseUrl, {
    ...file,
    channels: [telegramChannel("telegram", `http://127.0.0.1:${provider.port}`)],
    conversations: [{ id: conversations.telegram, channelId: "telegram", address: "4711" }]
  })
  return { provider, token }
}

/** Sends the text that all tests use. */
export const sendMessage = (url: string, token: string, key: string, call: Call = {}): Promise<Answer> =>
  command(`${url}${messagesPath(conversations.telegram)}`, token, key, { ...call, json: { text } })

/** Asserts the 503 of a send, which is the same for every failure. Returns the message's id if it is known. */
export const expectUnknown = (answer: Answer): string | null => {
  expectProblem(answer, 503, "provider_outcome_unknown")
  assert.isAtLeast(Number(answer.headers["retry-after"]), 1)
  assert.notInclude(answer.text, botToken)
  const { json: body } = answer
  const id = typeof body === "object" && body !== null && "messageId" in body ? body.messageId : undefined
  assert.isTrue(id === null || (typeof id === "string" && id.startsWith("msg_")))
  return typeof id === "string" ? id : null
}

export const expectSent = (answer: Answer, replayed: boolean) => {
  assertMatches({ status: answer.status, body: answer.json }, { status: 200, body: { deliveryStatus: "sent" } })
  assert.strictEqual(answer.headers["idempotent-replayed"], replayed ? "true" : undefined)
}
