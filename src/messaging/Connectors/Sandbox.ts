/** The connector for trials: accepts every message in the process and sends nothing. */
import { Effect } from "effect"
import type { Connector } from "../Connectors.ts"
import type { Configs } from "./Config.ts"

export const sandbox: Connector<Configs["sandbox"]> = {
  idempotent: true,
  send: (_, { messageId }) => Effect.succeed({ _tag: "accepted", providerMessageId: `sandbox_${messageId}` })
}
