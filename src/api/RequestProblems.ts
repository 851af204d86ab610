/** The problems that any request can have: its form, its credential, its limits, and failures of the service. */
import { Schema } from "effect"
import type { Module, Policy, Scope } from "./Access.ts"
import { problem } from "./schema/Problem.ts"

/** A location begins with `path`, `query`, `header` or `body`. The location `request` is for malformed HTTP. */
export const Faults = Schema.Record(Schema.String, Schema.Array(Schema.String)).annotate({
  description: "The faults of the request: for each location, such as `body/amountMinor`, the rules that are not met."
})
export type Faults = typeof Faults.Type

export class ValidationFailed extends problem<ValidationFailed>()("validation_failed", 400, {
  title: "The request does not have the required form.",
  remedy: "`errors` names each location and its rule. Correct the request; the same key may be used again.",
  /** `faultDetail` makes it of `errors`. */
  detail: undefined,
  members: { errors: Faults }
}) {}
export class MalformedJson extends problem<MalformedJson>()("malformed_json", 400, {
  title: "The request body is not well-formed JSON.",
  remedy: "Send one JSON document in UTF-8, without a byte order mark.",
  detail: "The body is empty."
}) {}
export class CredentialMissing extends problem<CredentialMissing>()("credential_missing", 401, {
  title: "The request carries no credential.",
  remedy: "Send `Authorization: Bearer <token>`.",
  detail: "Send a project token as `Authorization: Bearer dk_…`."
}) {}
export class CredentialInvalid extends problem<CredentialInvalid>()("credential_invalid", 401, {
  title: "The credential is not valid.",
  remedy:
    "Check the token. Unknown, malformed, expired and revoked tokens get the same answer; ask the operator for a new one.",
  detail: "The token is empty, unknown, malformed, expired or revoked. Send it as `Authorization: Bearer <token>`."
}) {}
export class OriginRefused extends problem<OriginRefused>()("origin_refused", 403, {
  title: "The Origin header names another server.",
  detail: "Requests of pages come from this server or from the loopback."
}) {}
export class ScopeMissing extends problem<ScopeMissing>()("scope_missing", 403, {
  title: "The credential lacks the scope of this operation.",
  remedy: "Ask the operator for a token with `requiredScope`.",
  detail: (scope: Scope) => `The operation requires the scope ${scope}.`,
  members: {
    requiredScope: Schema.String.annotate({ description: "The scope that a token needs for this operation." })
  }
}) {}
export class ModuleUnavailable extends problem<ModuleUnavailable>()("module_unavailable", 403, {
  title: "The module of this operation is not enabled in the project.",
  remedy: "Ask the operator to enable the module in the project.",
  detail: (module: Module) => `The project has not switched on the module ${module}.`
}) {}
export class EntitlementUnavailable extends problem<EntitlementUnavailable>()("entitlement_unavailable", 403, {
  title: "The project is not entitled to the developer API.",
  remedy: "Ask the operator to entitle the project to `developer_api`.",
  detail: "The project lacks the entitlement developer_api."
}) {}
export class MembershipUnavailable extends problem<MembershipUnavailable>()("membership_unavailable", 403, {
  title: "The member behind the credential is not active.",
  remedy: "The token is bound to an inactive member; ask the operator for another token.",
  detail: (memberId: string | null) => `The key is bound to the member ${memberId}.`,
  example: (detail) => ({ detail: detail("mem_rosa") })
}) {}
export class RouteNotFound extends problem<RouteNotFound>()("route_not_found", 404, {
  title: "No route matches this path.",
  detail:
    "Paths of operations begin with /api/v1/developer, are case-sensitive and take no trailing slash; /openapi.json lists them."
}) {}
export class MethodNotAllowed extends problem<MethodNotAllowed>()("method_not_allowed", 405, {
  title: "The path does not support this method.",
  detail: (allow: string) => `The path allows ${allow}.`
}) {}
export class IdempotencyKeyReused extends problem<IdempotencyKeyReused>()("idempotency_key_reused", 409, {
  title: "The idempotency key was used for another request.",
  remedy: "Use a new key for a new request. Use the same key only to repeat the same request.",
  detail: "Send a new idempotency-key with a new request; keep a key for repeats of the same one."
}) {}
export class RequestTimeout extends problem<RequestTimeout>()("request_timeout", 408, {
  title: "The request did not arrive in time.",
  detail: (headersTimeout: number, requestTimeout: number) =>
    `A header section has to arrive within ${headersTimeout / 1_000} s, a request within ${requestTimeout / 1_000} s.`
}) {}
export class BodyTooLarge extends problem<BodyTooLarge>()("body_too_large", 413, {
  title: "The request body is too large.",
  remedy: "A body has at most 256 KiB, that of a batch 1 MiB.",
  detail: (bytes: number) => `A body has at most ${bytes} bytes.`
}) {}
export class UnsupportedMediaType extends problem<UnsupportedMediaType>()("unsupported_media_type", 415, {
  title: "The request body is not application/json.",
  remedy: "Send `content-type: application/json`.",
  detail: "Send the body as `content-type: application/json`."
}) {}
export class MisdirectedRequest extends problem<MisdirectedRequest>()("misdirected_request", 421, {
  title: "The Host header names another server.",
  detail:
    "This port is reached by a name or an address of the loopback, by ADMIN_HOST or by one of ADMIN_ALLOWED_HOSTS."
}) {}
export class RateLimitExceeded extends problem<RateLimitExceeded>()("rate_limit_exceeded", 429, {
  title: "The project has sent too many requests.",
  remedy: "Nothing happened. Wait `Retry-After` seconds, then send the request again with the same key.",
  detail: (
    policy: Policy,
    { limit, windowSeconds }: { readonly limit: number; readonly windowSeconds: number },
    seconds = "1"
  ) => `The policy "${policy}" allows ${limit} requests per ${windowSeconds} s. Send it again after ${seconds} s.`
}) {}
export class HeadersTooLarge extends problem<HeadersTooLarge>()("headers_too_large", 431, {
  title: "The request's header section is too large.",
  detail: "A request's header section has at most 16 KiB."
}) {}
export class Internal extends problem<Internal>()("internal", 500, {
  title: "The server failed to answer.",
  remedy: "The failure is logged with this `x-request-id`. Send the request again with the same key.",
  detail: "The failure was logged under this request's id."
}) {}
export class RateLimiterUnavailable extends problem<RateLimiterUnavailable>()("rate_limiter_unavailable", 503, {
  title: "The rate limiter is unavailable.",
  remedy: "Nothing happened. Wait `Retry-After` seconds, then send the request again with the same key.",
  detail: "Requests can't be counted right now. Try again in a moment."
}) {}
export class ServiceUnavailable extends problem<ServiceUnavailable>()("service_unavailable", 503, {
  title: "The service is not available right now.",
  remedy: "Wait `Retry-After` seconds, then send the request again with the same key. It has at most one effect.",
  detail: "The database did not answer in time. Send the request again."
}) {}
