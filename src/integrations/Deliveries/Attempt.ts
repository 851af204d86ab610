/** One attempt of a delivery: its body, its headers and signatures, and its span. */
import { Effect, Option, References } from "effect"
import { currentTraceparent, inClientSpan } from "../../platform/outbound/ClientSpan.ts"
import { userAgent } from "../../platform/outbound/UserAgent.ts"
import { signedHeaders } from "../../platform/StandardWebhooks.ts"
import { spanOf } from "../../platform/TraceContext.ts"
import { errorOf, type Outcome, type Sender } from "../Sender.ts"
import type { Claim } from "./Claim.ts"
import type { Secrets } from "./Secrets.ts"

/** What is signed and sent, to the byte: the event for one installation, its `data` as it was stored. */
export const bodyOf = ({ data, eventId, installationId, occurredAt, projectId, type }: Claim): string => {
  const event = { id: eventId, type, timestamp: occurredAt.toISOString(), projectId, installationId }
  return `${JSON.stringify(event).slice(0, -1)},"data":${data}}`
}

/** What attempts are made with. */
export interface Parts {
  readonly secrets: Secrets
  readonly sender: Sender["Service"]
}

/** Signs and sends a claimed delivery, as a client of the trace that caused it. `now` is in milliseconds. */
export const attempt = (parts: Parts, claim: Claim, now: number): Effect.Effect<Outcome> =>
  Effect.flatMap(References.TracerEnabled, (enabled) => (enabled ? traced : send)(parts, claim, now))

const traced = (parts: Parts, claim: Claim, now: number) =>
  Effect.flatMap(currentTraceparent, (own) =>
    send(
      parts,
      claim,
      now,
      Option.getOrElse(own, () => claim.traceparent)
    )
  ).pipe(
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

const send = ({ secrets, sender }: Parts, claim: Claim, now: number, traceparent = claim.traceparent) =>
  Effect.flatMap(secrets(claim), (opened) => {
    const body = bodyOf(claim)
    return sender.send({
      url: claim.endpointUrl,
      body,
      headers: {
        "content-type": "application/json",
        "user-agent": userAgent,
        ...signedHeaders(opened, claim.id, now, body),
        traceparent
      }
    })
  })
