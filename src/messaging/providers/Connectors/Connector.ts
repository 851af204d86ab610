/** The interface of connectors (contract §8). `Connectors.ts` lists them. */
import { type Duration, type Effect, Schema } from "effect"
import type { ConversationId, MessageId } from "../../../api/schema/Ids.ts"
import type { Outcome } from "../Outcomes.ts"
import { text } from "../../../api/schema/Fields.ts"

export interface Outgoing {
  /** The idempotency key of providers with idempotent sends. */
  readonly messageId: MessageId
  /** Null for a message of a campaign. */
  readonly conversationId: ConversationId | null
  readonly recipient: string
  readonly text: string
}

/** The protocol of one type of provider. */
interface Connector<Config extends Schema.Top> {
  readonly config: Config
  /** Members of `config` that a project file may omit, with their values in a new channel. */
  readonly defaults: Partial<Config["Type"]>
  /** Whether a repeated send with the same message id has no second effect. */
  readonly idempotent: boolean
  /** Calls the provider once. Never fails, and ends within `timeout`. */
  readonly send: (config: Config["Type"], message: Outgoing, timeout: Duration.Duration) => Effect.Effect<Outcome>
}

/** Declares a connector, and infers the type of its config. */
export const connector = <Config extends Schema.Top>(declared: Connector<Config>): Connector<Config> => declared

const isHttpUrl = (text: string) => {
  if (!URL.canParse(text)) return false
  const { password, protocol, username } = new URL(text)
  return ["http:", "https:"].includes(protocol) && username === "" && password === ""
}

/**
 * A URL that the operator has chosen, so any address is allowed. Credentials in the URL are refused, because they would not be
 * sent.
 */
export const HttpUrl = text(1, 2048).check(
  Schema.makeFilter(isHttpUrl, {
    expected: "an http or https URL without credentials",
    toJsonSchema: () => ({ format: "uri" })
  })
)

export const secret = (pattern: RegExp, expected: string) =>
  Schema.RedactedFromValue(text(1, 500).check(Schema.isPattern(pattern, { expected })))
