/** One attempt of a delivery: its body, headers, signatures and trace span. */
import { Effect, Option, Redacted, References } from "effect"
import { testEventType } from "../../api/integrations/Events.ts"
import type { deliveryHeaders, WebhookHeaders } from "../../api/integrations/Webhooks.ts"
import { currentTraceparent, inClientSpan, userAgent } from "../../outbound/Exchange.ts"
import type { SecretBox } from "../../secrets/SecretBox.ts"
import { signedHeaders } from "../../secrets/StandardWebhooks.ts"
import { spanOf } from "../../telemetry/Telemetry.ts"
import type { Claim } from "./DeliveryLoop/Claim.ts"
import { keyOf } from "../Endpoint.ts"
import { type Delivery, errorOf, type Outcome, type Sender } from "../address/Sender.ts"
import { openHeaders, secretOwner } from "../WebhookSecrets.ts"

interface AddressedEvent extends Pick<Claim, "data" | "eventId" | "installationId" | "occurredAt" | "projectId"> {
  readonly type: Claim["type"] | typeof testEventType
}

/** Returns the body that is signed and sent: the event for one installation, with its `data` exactly as stored. */
export const bodyOf = ({ data, eventId, installationId, occurredAt, projectId, type }: AddressedEvent): string => {
  const event = { id: eventId, type, timestamp: occurredAt, projectId, installationId }
  return `${JSON.stringify(event).slice(0, -1)},"data":${data}}`
}

interface Parts {
  readonly secrets: Secrets
  readonly sender: Sender["Service"]
}

/** Signs and sends a claimed delivery, in a client span of the event's trace. `now` is in milliseconds. */
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
    // Encodes the body once. A string would be encoded twice: for the signature and for the connection.
    const body = Buffer.from(bodyOf(claim))
    return sender.send({
      url: claim.endpointUrl,
      body,
      ...headersOf(opened, { webhookId: claim.webhookId, now, body, traceparent })
    })
  })

interface Opened {
  readonly secrets: ReadonlyArray<Redacted.Redacted>
  readonly headers: Redacted.Redacted<WebhookHeaders> | undefined
}

/** Returns all headers of a delivery. `now`, in milliseconds, is the time in the signatures. */
export const headersOf = (
  { headers, secrets }: Opened,
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
): Pick<Delivery, "headers" | "secrets"> => {
  const own: Record<(typeof deliveryHeaders)[number], string> = {
    ...signedHeaders(secrets, webhookId, now, body),
    "content-type": "application/json",
    "user-agent": userAgent,
    traceparent
  }
  if (headers === undefined) return { headers: own }
  const added = Redacted.value(headers)
  return { headers: { ...added, ...own }, secrets: Object.values(added) }
}

type Secrets = (claim: Pick<Claim, "projectId" | "installationId" | "secrets">) => Effect.Effect<Opened>

/** Maximum number of endpoints whose opened secrets are cached. */
const remembered = 10_000

/**
 * Returns a function that opens the secrets and headers of an endpoint, and caches them until the sealed ones change. If no key
 * opens the newest secret or the headers, the operator's SECRET_KEY is wrong and nothing can be sent: this is a defect. An older
 * secret that no key opens is left out, because receivers can verify the signature by the newest secret.
 */
export const secretsOf = (box: SecretBox["Service"]): Secrets => {
  const known = new Map<string, { readonly sealed: string; readonly opened: Opened }>()
  return ({ installationId, projectId, secrets }) => {
    const endpoint = keyOf({ projectId, installationId })
    const last = known.get(endpoint)
    if (last?.sealed === secrets) return Effect.succeed(last.opened)
    const owner = secretOwner(projectId, installationId)
    const open = (sealed: string) => box.open(owner, Buffer.from(sealed, "base64"))
    const [signing = "", sealedHeaders] = secrets.split("|")
    const [inForce = "", ...older] = signing.split(" ")
    return Effect.all({
      secrets: Effect.map(
        Effect.all([open(inForce), ...older.map((sealed) => Effect.option(open(sealed)))]),
        ([first, ...others]) => [first, ...others.flatMap(Option.toArray)]
      ),
      headers:
        sealedHeaders === undefined
          ? Effect.undefined
          : openHeaders(box, projectId, installationId, Buffer.from(sealedHeaders, "base64"))
    }).pipe(
      Effect.tap((opened) =>
        Effect.sync(() => {
          if (known.size >= remembered) known.clear()
          known.set(endpoint, { sealed: secrets, opened })
        })
      ),
      Effect.orDie
    )
  }
}
