/** Verification of webhook deliveries by the receiver, with events decoded by their schemas. */
import { Clock, Duration, Effect, Predicate, Redacted, Schema, SchemaAST } from "effect"
import { eventBody, type EventType, eventTypes } from "../api/integrations/Events.ts"
import { type SignedDelivery, verified, WebhookInvalid } from "./Signature.ts"

export { WebhookInvalid, type WebhookInvalidReason } from "./Signature.ts"

/** An event. `type` decides the type of `data`. `id` is the same in each delivery of the event: handle each `id` once. */
export type WebhookEvent = { [Type in EventType]: ReturnType<typeof eventBody<Type>>["Type"] }[EventType]

/** A delivery as it arrived, and what is needed to verify it. */
export interface WebhookDelivery extends Omit<SignedDelivery, "secrets" | "tolerance"> {
  /** The signing secret, `whsec_…`, or a list of secrets. One of them has to match. */
  readonly secrets: string | Redacted.Redacted | ReadonlyArray<string | Redacted.Redacted>
  /** Maximum difference between the delivery's time and now, in either direction. Default: 5 minutes. */
  readonly tolerance?: Duration.Input | undefined
}

/**
 * Verifies a delivery and decodes its event. One of the delivery's signatures has to fit one of the secrets: pass the old and
 * the new secret during a rotation. The comparison takes constant time. Fails with `WebhookInvalid`.
 */
export const verifyWebhook = Effect.fnUntraced(function* ({
  secrets,
  tolerance = "5 minutes",
  ...delivery
}: WebhookDelivery): Effect.fn.Return<WebhookEvent, WebhookInvalid> {
  const now = yield* Clock.currentTimeMillis
  const plain = [secrets].flat().map((secret) => (Redacted.isRedacted(secret) ? Redacted.value(secret) : secret))
  const signed = { ...delivery, secrets: plain, tolerance: Duration.toSeconds(tolerance) }
  const body = yield* Effect.promise(() => verified(signed, now))
  if (body instanceof WebhookInvalid) return yield* Effect.fail(body)
  const decode = decoders.get(body.type)
  if (decode === undefined) {
    const message = `This client does not know events of type ${JSON.stringify(body.type)}`
    return yield* Effect.fail(new WebhookInvalid("type_unknown", message))
  }
  const event = yield* Effect.mapError(
    decode(body),
    (cause) => new WebhookInvalid("body_invalid", "The body is no event that this client knows", cause)
  )
  // The type of `decoders` does not relate `type` and `data`, but each event is decoded by the schema of its own type.
  return event as WebhookEvent
})

/** Like `verifyWebhook`, as a Promise that rejects with `WebhookInvalid`. */
export const verifyWebhookPromise = (delivery: WebhookDelivery): Promise<WebhookEvent> =>
  Effect.runPromise(verifyWebhook(delivery))

/**
 * Returns a function that adds null for each absent member that the schema allows to be null, at any depth. New members of
 * events can always be null. So the schema also decodes an older event after this function has completed it.
 */
export const withAbsentAsNull = (schema: Schema.Top): ((json: unknown) => unknown) => {
  const { ast } = Schema.toEncoded(schema)
  return (json) => complete(ast, json)
}

const complete = (ast: SchemaAST.AST, json: unknown): unknown => {
  if (SchemaAST.isUnion(ast)) return ast.types.reduce((value, member) => complete(member, value), json)
  if (SchemaAST.isArrays(ast) && Array.isArray(json)) {
    const [item] = ast.rest
    return item === undefined ? json : json.map((value: unknown) => complete(item, value))
  }
  if (!SchemaAST.isObjects(ast) || !Predicate.isObject(json)) return json
  const members = new Map(Object.entries(json))
  for (const { name, type } of ast.propertySignatures) {
    const member = String(name)
    if (members.has(member)) members.set(member, complete(type, members.get(member)))
    else if (acceptsNull(type) && !SchemaAST.isOptional(type)) members.set(member, null)
  }
  return Object.fromEntries(members)
}

const acceptsNull = (ast: SchemaAST.AST): boolean =>
  SchemaAST.isNull(ast) || (SchemaAST.isUnion(ast) && ast.types.some(acceptsNull))

/** The decoder also accepts events of an older service, which lack members that were added since. */
const decoderOf = (type: EventType) => {
  const schema = eventBody(type)
  const decode = Schema.decodeUnknownEffect(schema)
  const complete = withAbsentAsNull(schema)
  return (body: unknown): Effect.Effect<unknown, Schema.SchemaError> => decode(complete(body))
}
const decoders = new Map<string, ReturnType<typeof decoderOf>>(eventTypes.map((type) => [type, decoderOf(type)]))
