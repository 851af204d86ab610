/** One attempt of a delivery: its body, its headers and signatures, and its span. */
import { Effect, Option } from "effect"
import { currentTraceparent, inClientSpan } from "../../platform/outbound/ClientSpan.ts"
import { userAgent } from "../../platform/outbound/UserAgent.ts"
import type { SecretBox } from "../../platform/SecretBox.ts"
import { signedHeaders } from "../../platform/StandardWebhooks.ts"
import { spanOf } from "../../platform/TraceContext.ts"
import { errorOf, type Outcome, type Sender } from "../Sender.ts"
import { secretOwner } from "../Webhooks/Secrets.ts"
import type { Claim } from "./Claims.ts"

/** The bytes that are signed and sent: the event for one installation, its `data` as it was stored. */
export const bodyOf = ({ data, eventId, installationId, occurredAt, projectId, type }: Claim): Uint8Array => {
  const event = { id: eventId, type, timestamp: occurredAt.toISOString(), projectId, installationId }
  return Buffer.from(`${JSON.stringify(event).slice(0, -1)},"data":${data}}`)
}

/** Signs and sends a claimed delivery, as a client of the trace that caused it. `now` is in milliseconds. */
export const attempt = (
  { box, sender }: { readonly box: SecretBox["Service"]; readonly sender: Sender["Service"] },
  claim: Claim,
  now: number
): Effect.Effect<Outcome> =>
  Effect.gen(function* () {
    const owner = secretOwner(claim.projectId, claim.installationId)
    // A secret that our key does not open is a fault of the operator's SECRET_KEY: nothing can be signed.
    const secrets = yield* Effect.orDie(Effect.forEach(claim.secrets, (sealed) => box.open(owner, sealed)))
    const body = bodyOf(claim)
    const traceparent = yield* currentTraceparent
    return yield* sender.send({
      url: claim.endpointUrl,
      body,
      headers: {
        "content-type": "application/json",
        "user-agent": userAgent,
        ...signedHeaders(secrets, claim.id, now, body),
        traceparent: Option.getOrElse(traceparent, () => claim.traceparent)
      }
    })
  }).pipe(
    inClientSpan(errorOf, {
      parent: spanOf(claim.traceparent),
      attributes: {
        "webhook.delivery.id": claim.id,
        "webhook.event.type": claim.type,
        "webhook.attempt": claim.attempt,
        "project.id": claim.projectId,
        "installation.id": claim.installationId
      }
    })
  )
