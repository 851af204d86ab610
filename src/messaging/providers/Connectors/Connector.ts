/** The interface of connectors (contract §8). `Connectors.ts` lists them. */
import type { Duration, Effect, Schema } from "effect"
import type { ConversationId, MessageId } from "../../../api/schema/Ids.ts"
import type { Outcome } from "../Outcomes.ts"

export interface Outgoing {
  /** The idempotency key of providers with idempotent sends. */
  readonly messageId: MessageId
  /** Null for a message of a campaign. */
  readonly conversationId: ConversationId | null
  readonly recipient: string
  readonly text: string
}

/** The protocol of one type of provider. */
export interface Connector<Config extends Schema.Top> {
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
