/** One send to a recipient, from its claim to its result. */
import { Duration, Effect } from "effect"
import { createHash } from "node:crypto"
import { MessageId } from "../../api/Ids.ts"
import type { Circuits } from "../../messaging/Circuits.ts"
import { isUnanswered, type Outcome } from "../../messaging/Outcomes.ts"
import * as Metrics from "../../messaging/MessageMetrics.ts"
import { outcomes, type Providers } from "../../messaging/Providers.ts"
import type { Permit } from "../../platform/background/Slots.ts"
import { spanOf } from "../../platform/TraceContext.ts"
import type { Claim } from "./Claims.ts"
import type { Recorder } from "./Recorder.ts"
import { recipientResult, released } from "./Results.ts"

interface Parts {
  readonly providers: Providers["Service"]
  readonly circuits: Circuits["Service"]
  readonly recorder: Recorder
}

/**
 * Waits for the time of a claim, calls the provider, and passes the result to the recorder. A claim without a call,
 * because the channel's circuit is open or the process ends, is released.
 */
export const send = ({ circuits, providers, recorder }: Parts, claim: Claim, permit: Permit): Effect.Effect<void> => {
  let calling = false

  const settle = Effect.fnUntraced(function* (outcome: Outcome) {
    const result = recipientResult(claim, providers.isIdempotent(claim.providerType), outcome)
    yield* Metrics.count(claim.providerType, result.on)
    yield* recorder.finish(result)
  })

  const call = Effect.suspend(() => {
    calling = true
    permit.begin()
    const { address, template } = claim
    const message = { messageId: messageIdOf(claim), conversationId: null, recipient: address }
    return providers.send(claim, { ...message, text: rendered(template, claim) })
  })

  return Effect.sleep(Duration.millis(Math.max(0, claim.delayMillis))).pipe(
    Effect.andThen(circuits.guard(claim, call)),
    Effect.tap((outcome) => Effect.sync(() => permit.end(isUnanswered(outcome) ? "failed" : "succeeded"))),
    Effect.onInterrupt(() => (calling ? settle(outcomes.interrupted) : recorder.finish(released(claim)))),
    Effect.flatMap(settle),
    Effect.catchTag("CircuitOpen", () => recorder.finish(released(claim))),
    Effect.ensuring(Effect.sync(() => permit.end("unused"))),
    Effect.asVoid,
    Effect.withSpan("Runner.send", {
      parent: spanOf(claim.traceparent),
      attributes: { "project.id": claim.projectId, "campaign.id": claim.campaignId }
    })
  )
}

/** Derives the message id, which is the same for each attempt on a route: the idempotency key of the provider. */
const messageIdOf = ({ audienceId, clientId, projectId, route }: Claim): MessageId => {
  const digest = createHash("sha256")
    .update(JSON.stringify([projectId, audienceId, clientId, route]))
    .digest("hex")
  return MessageId.make(`msg_${digest.slice(0, 32)}`)
}

const placeholder = /\{\{(displayName|firstName|lastName)\}\}/g

/** Replaces the placeholders of names; a missing name is empty, and other braces stay as they are (contract §9). */
const rendered = (template: string, names: Pick<Claim, "displayName" | "firstName" | "lastName">): string =>
  template.replace(placeholder, (whole, name: string) =>
    name === "displayName" || name === "firstName" || name === "lastName" ? (names[name] ?? "") : whole
  )
