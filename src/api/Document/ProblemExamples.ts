/**
 * Examples of problems in the OpenAPI document. Some are the same for every operation; others depend on its parameters and its
 * access (`ofOperation`).
 */
import { Record } from "effect"
import type * as OpenApi from "effect/http-api/OpenApi"
import type { Access } from "../Access.ts"
import { defaultRateLimits } from "../Authentication.ts"
import { detailOf, details, missingOfCampaign, missingOfDeal } from "../Details.ts"
import { maxBodyBytes } from "../Requests.ts"
import { faultDetail } from "../schema/Locations.ts"
import type { OperationCode } from "./Advice.ts"
import { codesOf, type ProblemSchemas } from "./Problems.ts"

/** The members of an example that have no fixed value in the schema of the problem. */
interface Example {
  readonly detail: string
  readonly [member: string]: unknown
}

const missing = ["primary_route", "audience"]
const instance = "urn:developer-api:request:0b9e6c1a-52d7-4f6e-9a53-7c1d2e8f4a60"
const messageId = "msg_0193f0cd92c37d5e8b2c3d4e5f607182"

const examples: Readonly<Record<string, Example>> = {
  ...Record.map(details, (detail) => ({ detail })),
  schedule_invalid: { detail: detailOf.schedule_invalid("2026-11-20T10:00", "Europe/Berlin") },
  membership_unavailable: { detail: detailOf.membership_unavailable("mem_rosa") },
  deal_reference_not_found: { detail: missingOfDeal.stageId },
  campaign_reference_not_found: { detail: missingOfCampaign.segmentId },
  version_conflict: { detail: detailOf.version_conflict("record", 3), currentVersion: 3 },
  campaign_state_conflict: { detail: detailOf.campaign_state_conflict("running", "freeze_audience", ["draft"]) },
  campaign_not_ready: { detail: detailOf.campaign_not_ready(missing), missing },
  provider_conflict: { detail: detailOf.provider_conflict(": its channel is revoked"), messageId },
  webhook_state_conflict: { detail: details.webhook_not_found },
  body_too_large: { detail: detailOf.body_too_large(maxBodyBytes) },
  provider_outcome_unknown: { detail: details.provider_outcome_unknown, messageId }
} satisfies Record<Exclude<OperationCode, keyof ReturnType<typeof ofOperation>>, Example>

const ofOperation = ({ module, policy, scope }: Access["Service"], { parameters }: OpenApi.OpenAPISpecOperation) => {
  const errors = faultsOf(parameters.map((parameter) => `${parameter.in}/${parameter.name}`))
  return {
    validation_failed: { detail: faultDetail({ errors, omitted: 0 }), errors },
    scope_missing: { detail: detailOf.scope_missing(scope), requiredScope: scope },
    module_unavailable: { detail: detailOf.module_unavailable(module) },
    rate_limit_exceeded: { detail: detailOf.rate_limit_exceeded({ policy, ...defaultRateLimits[policy] }) }
  }
}

/** Returns a fault that a request with parameters at these locations can have. */
const faultsOf = (locations: ReadonlyArray<string>): Readonly<Record<string, ReadonlyArray<string>>> =>
  locations.includes("header/idempotency-key")
    ? { "header/idempotency-key": ["is required"] }
    : locations.includes("query/limit")
      ? { "query/limit": ["must be an integer from 1 to 100"] }
      : locations.includes("path/conversationId")
        ? { "path/conversationId": ["must be a UUID"] }
        : { [locations[0] ?? "query"]: ["must be a string of 1 to 160 characters"] }

export const exampleProblems = (
  problems: ProblemSchemas,
  response: OpenApi.OpenApiSpecResponse,
  access: Access["Service"],
  operation: OpenApi.OpenAPISpecOperation
): Readonly<Record<string, unknown>> => {
  const known: Readonly<Record<string, Example>> = { ...examples, ...ofOperation(access, operation) }
  return Object.fromEntries(
    codesOf(response).map((code) => [
      code,
      { type: `urn:developer-api:problem:${code}`, ...problems.get(code), instance, code, ...known[code] }
    ])
  )
}
