/**
 * One attempt of a delivery: the claim and the lease for which it is made; its body, headers, signatures and trace span; its result, and
 * its entry in the attempt log.
 */
import { Effect, Option, Redacted, References } from "effect"
import type { SqlClient, Statement } from "effect/sql"
import type { DeliveryId, EventId } from "../../api/schema/Ids.ts"
import { type EventType, testEventType } from "../../api/integrations/Events.ts"
import type { deliveryHeaders, WebhookHeaders } from "../../api/integrations/Webhooks.ts"
import { formatInstant } from "../../sql/Times.ts"
import { currentTraceparent, inClientSpan, userAgent } from "../../outbound/Exchange.ts"
import type { SecretBox } from "../../secrets/SecretBox.ts"
import { signedHeaders } from "../../secrets/StandardWebhooks.ts"
import { spanOf } from "../../telemetry/Telemetry.ts"
import { type Endpoint, keyOf } from "../Endpoint.ts"
import type { Move } from "./States.ts"
import { type SignedRequest, errorOf, type AttemptOutcome, type Sender } from "../address/Sender.ts"
import { openHeaders, secretOwner } from "../WebhookSecrets.ts"

export interface Claim extends Endpoint {
  readonly id: DeliveryId
  /** The `webhook-id`: the delivery's own id or, for a delivery of a replay, the id of the original delivery. */
  readonly webhookId: DeliveryId
  readonly attempt: number
  /**
   * End of the lease. `leasedUntil` and `attempt` together identify the lease: no other lease of the delivery has the same two
   * values.
   */
  readonly leasedUntil: Date
  /** Number of delays of the retry schedule that are used up. */
  readonly retries: number
  /**
   * Whether the endpoint is suspect because of recent failures. Attempts to suspect endpoints have a class of slots of their own.
   */
  readonly suspect: boolean
  readonly endpointUrl: string
  /** Version of the webhook. A result changes the health of the endpoint only if the webhook still has this version. */
  readonly version: number
  /** Sealed secrets and headers, as `validSecrets` reads them. */
  readonly secrets: string
  readonly eventId: EventId
  readonly type: EventType
  /** The data of the event as JSON, exactly as it is sent. */
  readonly data: string
  /** As it is sent: RFC 3339 in UTC, with milliseconds. */
  readonly occurredAt: string
  readonly traceparent: string
}

/** The number of turns of the event loop, and the milliseconds for which it has been idle. */
export interface LoopTimes {
  readonly turns: number
  readonly idle: number
}

export interface Lease extends Claim {
  /** Start of the attempt in milliseconds. Before the attempt starts: the time of the claim. */
  startedAt: number
  /** Start of the attempt by the monotonic clock, in milliseconds. 0 before the attempt starts. */
  beganAt: number
  /** The event loop at the start of the attempt. Zero before the attempt starts. */
  loop: LoopTimes
}

/** Outcome of an attempt, or of a lease that is returned. Times are in milliseconds. */
export interface Result {
  readonly lease: Lease
  readonly on: Extract<Move, "succeeded" | "failed" | "exhausted" | "released" | "unsent">
  readonly statusCode: number | null
  readonly errorCode: string | null
  readonly responseBody: string | null
  readonly startedAt: number
  readonly finishedAt: number
  /**
   * Milliseconds until the next attempt. 0 if the schedule has no further attempt. After a 410 the delay is used only if the
   * webhook has another version when the result is recorded.
   */
  readonly retryIn: number
  /** Delay that the endpoint has requested by `Retry-After`, in milliseconds. */
  readonly restFor: number
  /** Strikes of a failed attempt; otherwise 0. `strikesToSuspect` make an endpoint suspect. */
  readonly strikes: number
  /** The factor by which the pause of the endpoint is multiplied, if this result begins a pause. */
  readonly jitter: number
}

interface AddressedEvent extends Pick<Claim, "data" | "eventId" | "installationId" | "occurredAt" | "projectId"> {
  readonly type: Claim["type"] | typeof testEventType
}

/** Returns the body that is signed and sent: the event for one installation, with its `data` exactly as stored. */
export const bodyOf = ({ data, eventId, installationId, occurredAt, projectId, type }: AddressedEvent): string => {
  const event = { id: eventId, type, timestamp: occurredAt, projectId, installationId }
  return `${JSON.stringify(event).slice(0, -1)},"data":${data}}`
}

/** What every attempt of this process is made with. */
interface Sending {
  readonly secrets: Secrets
  readonly sender: Sender["Service"]
}

/** Signs and sends a claimed delivery, in a client span of the event's trace. `now` is in milliseconds. */
export const attempt = (sending: Sending, claim: Claim, now: number): Effect.Effect<AttemptOutcome> =>
  Effect.withFiber((fiber) =>
    fiber.getRef(References.TracerEnabled) ? traced(sending, claim, now) : send(sending, claim, now, claim.traceparent)
  )

const traced = (sending: Sending, claim: Claim, now: number) =>
  Effect.flatMap(currentTraceparent, (own) =>
    send(
      sending,
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

const send = ({ secrets, sender }: Sending, claim: Claim, now: number, traceparent: string) =>
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
): Pick<SignedRequest, "headers" | "secrets"> => {
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

/** A delivery keeps this many of its newest attempts, and the `responseBody` of fewer. */
const keptAttempts = 30
const keptBodies = 5

/** The entry of an attempt, as a JSON array. If the log is empty, PostgreSQL stores this array without copying it. */
export const entryOf = ({
  errorCode,
  finishedAt,
  lease: { attempt, endpointUrl },
  responseBody,
  startedAt,
  statusCode
}: Result): string =>
  `[{"number":${attempt},"startedAt":"${formatInstant(startedAt)}","finishedAt":"${formatInstant(finishedAt)}",` +
  `"statusCode":${statusCode},"errorCode":${JSON.stringify(errorCode)},"durationMs":${finishedAt - startedAt},"endpointUrl":${JSON.stringify(endpointUrl)}` +
  (responseBody === null ? "}]" : `,"responseBody":${JSON.stringify(responseBody)}}]`)

/** An SQL expression over `deliveries`: the attempt log with one more entry (jsonb), cut to its bounds. The oldest come first. */
export const logWith = (sql: SqlClient.SqlClient, entry: Statement.Fragment) => {
  const [attempts, bodies] = [sql.literal(String(keptAttempts)), sql.literal(String(keptBodies))]
  return sql`CASE
    WHEN jsonb_array_length(attempt_log) < ${bodies} THEN attempt_log || ${entry}
    ELSE (
      SELECT jsonb_agg(CASE WHEN age < ${bodies} THEN attempt ELSE attempt - 'responseBody' END)
      FROM jsonb_array_elements(attempt_log || ${entry}) WITH ORDINALITY AS logged (attempt, place), LATERAL (
        SELECT jsonb_array_length(attempt_log) + 1 - place AS age
      ) AS aged WHERE age < ${attempts}
    )
  END`
}

/** The last failure of an endpoint, as JSON. */
export const failureOf = ({ errorCode, finishedAt, responseBody, statusCode }: Result) =>
  `{"at":"${formatInstant(finishedAt)}","statusCode":${statusCode},"errorCode":${JSON.stringify(errorCode)},"responseBody":${JSON.stringify(responseBody)}}`
