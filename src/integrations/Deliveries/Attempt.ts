/** One attempt of a delivery: its body, its headers and signatures, and its span. */
import { Effect, Option, type Redacted, References } from "effect"
import { currentTraceparent, inClientSpan } from "../../platform/outbound/ClientSpan.ts"
import { userAgent } from "../../platform/outbound/Exchange.ts"
import { formatInstant } from "../../platform/Instants.ts"
import { signedHeaders } from "../../platform/StandardWebhooks.ts"
import { spanOf } from "../../platform/TraceContext.ts"
import { testEventType } from "../../api/integrations/Events.ts"
import { errorOf, type Outcome, type Sender } from "../Sender.ts"
import type { Claim } from "./Claim.ts"
import type { Secrets } from "./Secrets.ts"

/** An event, addressed to one installation. */
interface AddressedEvent extends Pick<Claim, "data" | "eventId" | "installationId" | "occurredAt" | "projectId"> {
  readonly type: Claim["type"] | typeof testEventType
}

/** Returns the body that is signed and sent: the event for one installation, with its `data` exactly as stored. */
export const bodyOf = ({ data, eventId, installationId, occurredAt, projectId, type }: AddressedEvent): string => {
  const event = { id: eventId, type, timestamp: formatInstant(occurredAt.getTime()), projectId, installationId }
  return `${JSON.stringify(event).slice(0, -1)},"data":${data}}`
}

/** The services that attempts use. */
interface Parts {
  readonly secrets: Secrets
  readonly sender: Sender["Service"]
}

/** Signs and sends a claimed delivery, as a client of the trace that caused it. `now` is in milliseconds. */
export const attempt = (parts: Parts, claim: Claim, now: number): Effect.Effect<Outcome> =>
  Effect.withFiber((fiber) =>
    fiber.getRef(References.TracerEnabled) ? traced(parts, claim, now) : send(parts, claim, now, claim.traceparent)
  )

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

const send = ({ secrets, sender }: Parts, claim: Claim, now: number, traceparent: string) =>
  Effect.flatMap(secrets(claim), (opened) => {
    // Bytes, as text would be encoded once for the signature and once for the connection.
    const body = Buffer.from(bodyOf(claim))
    return sender.send({
      url: claim.endpointUrl,
      body,
      headers: headersOf(opened, { webhookId: claim.webhookId, now, body, traceparent })
    })
  })

/** Returns the headers of a delivery. `now` is in milliseconds. */
export const headersOf = (
  secrets: ReadonlyArray<Redacted.Redacted>,
  {
    body,
    now,
    traceparent,
    webhookId
  }: {
    readonly webhookId: string
    readonly now: number
    readonly body: string | Uint8Array
    readonly traceparent: string
  }
) => ({
  ...signedHeaders(secrets, webhookId, now, body),
  "content-type": "application/json",
  "user-agent": userAgent,
  traceparent
})
