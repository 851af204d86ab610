/** The public export `developer-api/webhooks`: verifies deliveries of webhooks, and loads nothing else, not even `effect`. */
import type { WebhookEvent as Current } from "./Webhooks.ts"
import { type SignedDelivery, verified, WebhookInvalid } from "./Signature.ts"

export { keepNewest, type Versions } from "./Signature.ts"
export { type SignedDelivery, WebhookInvalid, type WebhookInvalidReason } from "./Signature.ts"

/** A value that may be older than this package: a member that may be null may also be absent. */
type Older<Value> = Value extends string | number | boolean | null | ReadonlyArray<unknown>
  ? Value
  : { readonly [Key in keyof Value as null extends Value[Key] ? never : Key]: Older<Value[Key]> } & {
      readonly [Key in keyof Value as null extends Value[Key] ? Key : never]?: Older<Value[Key]>
    }

/**
 * An event. `type` decides the type of `data`; answer 204 for a type that your program does not know. `id` is the same in each
 * delivery of the event: handle each `id` once. An event is sent as it was stored, up to 30 days later.
 */
export type WebhookEvent = Older<Current>

/**
 * Verifies a delivery, and parses its event, whose members are not checked. One of the delivery's signatures has to fit one of
 * the secrets: pass the old and the new secret during a rotation. Rejects with `WebhookInvalid`.
 */
export const verifyWebhook = async (delivery: SignedDelivery): Promise<WebhookEvent> => {
  const event = await verified(delivery, Date.now())
  if (event instanceof WebhookInvalid) throw event
  // Only the service can sign a body, and it signs events.
  return event as WebhookEvent
}
