/** One attempt of a delivery: its body, its headers and signatures, and its span. */
import { Effect, Option, References, type Tracer } from "effect"
import { Headers, HttpTraceContext } from "effect/http"
import manifest from "../../../package.json" with { type: "json" }
import type { Outcome, Sender } from "../Sender.ts"
import { signatures } from "../Signature.ts"
import type { Claim } from "./Claims.ts"
import type { Secrets } from "./Secrets.ts"

const userAgent = `developer-api/${manifest.version}`

/** The bytes that are signed and sent: the event for one installation, its `data` as it was stored. */
export const bodyOf = ({ data, eventId, installationId, occurredAt, projectId, type }: Claim): Uint8Array => {
  const event = { id: eventId, type, timestamp: occurredAt.toISOString(), projectId, installationId }
  return Buffer.from(`${JSON.stringify(event).slice(0, -1)},"data":${data}}`)
}

/** What attempts are made with. */
export interface Parts {
  readonly secrets: Secrets
  readonly sender: Sender["Service"]
}

/** Signs and sends a claimed delivery, as a client of the trace that caused it. `now` is in milliseconds. */
export const attempt = (parts: Parts, claim: Claim, now: number): Effect.Effect<Outcome> =>
  Effect.flatMap(References.TracerEnabled, (enabled) =>
    enabled
      ? Effect.option(Effect.currentParentSpan).pipe(
          Effect.flatMap((span) =>
            send(parts, claim, now, Option.match(span, { onNone: () => claim.traceparent, onSome: traceparentOf }))
          ),
          Effect.withSpan("POST", {
            kind: "client",
            parent: causeOf(claim.traceparent),
            attributes: {
              "webhook.delivery.id": claim.id,
              "webhook.event.type": claim.type,
              "webhook.attempt": claim.attempt,
              "project.id": claim.projectId,
              "installation.id": claim.installationId
            }
          })
        )
      : send(parts, claim, now, claim.traceparent)
  )

const send = ({ secrets, sender }: Parts, claim: Claim, now: number, traceparent: string) =>
  Effect.flatMap(secrets(claim), (opened) => {
    const body = bodyOf(claim)
    const timestamp = Math.floor(now / 1000)
    return sender.send({
      url: claim.endpointUrl,
      body,
      headers: {
        "content-type": "application/json",
        "user-agent": userAgent,
        "webhook-id": claim.id,
        "webhook-timestamp": String(timestamp),
        "webhook-signature": signatures(opened, claim.id, timestamp, body),
        traceparent
      }
    })
  })

const traceparentOf = ({ sampled, spanId, traceId }: Tracer.AnySpan) =>
  `00-${traceId.padStart(32, "0")}-${spanId}-${sampled ? "01" : "00"}`

const causeOf = (traceparent: string): Tracer.AnySpan | undefined =>
  Option.getOrUndefined(HttpTraceContext.w3c(Headers.fromRecordUnsafe({ traceparent })))
