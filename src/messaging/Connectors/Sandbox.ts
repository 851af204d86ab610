/** A provider for trying the service out: it takes every message, in the process, and sends it nowhere. */
import { Effect } from "effect"
import type { Connector } from "../Connectors.ts"
import type { Configs } from "./Config.ts"

export const sandbox: Connector<Configs["sandbox"]> = {
  idempotent: true,
  send: (_, { messageId }) => Effect.succeed({ _tag: "accepted", providerMessageId: `sandbox_${messageId}` })
}
