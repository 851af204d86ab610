/** The connector for trials. It accepts every message without sending it. */
import { Effect, Schema } from "effect"
import { connector } from "./Connector.ts"

export const sandbox = connector({
  // An empty Struct would accept any value but null.
  config: Schema.Record(Schema.String, Schema.Never.annotate({ message: "is not known here" })),
  defaults: {},
  idempotent: true,
  send: (_, { messageId }) => Effect.succeed({ _tag: "accepted", providerMessageId: `sandbox_${messageId}` })
})
