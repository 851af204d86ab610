/** Who calls, and whether they may: the implementation of `Authentication`. */
import { Context, Effect, Layer, Option } from "effect"
import { HttpServerRequest } from "effect/http"
import { Access } from "../../api/Access.ts"
import { Authentication, Principal } from "../../api/Authentication.ts"
import {
  CredentialInvalid,
  CredentialMissing,
  EntitlementUnavailable,
  MembershipUnavailable,
  ModuleUnavailable,
  ScopeMissing
} from "../../api/Problems.ts"
import { type Credential, Credentials } from "./Credentials.ts"

export const layer = Layer.effect(
  Authentication,
  Effect.gen(function* () {
    const credentials = yield* Credentials
    return Authentication.of({
      DeveloperBearer: Effect.fnUntraced(function* (operation, { credential: token, endpoint }) {
        const { headers } = yield* HttpServerRequest.HttpServerRequest
        if (headers["authorization"] === undefined) {
          return yield* new CredentialMissing({ detail: "Send a project token as `Authorization: Bearer dk_…`." })
        }
        const credential = yield* credentials.verify(token)
        if (Option.isNone(credential)) {
          return yield* new CredentialInvalid({ detail: "The token is unknown, malformed, expired or revoked." })
        }
        const refusal = refuse(credential.value, Context.getUnsafe(endpoint.annotations, Access))
        if (refusal !== undefined) return yield* refusal
        return yield* Effect.provideService(operation, Principal, credential.value)
      })
    })
  })
)

/** What stands between a valid credential and an operation, in the order of the contract's checks. */
const refuse = (credential: Credential, access: Access["Service"]) => {
  if (!credential.entitlements.includes("developer_api")) {
    return new EntitlementUnavailable({ detail: "The project lacks the entitlement developer_api." })
  }
  if (!credential.modules.includes(access.module)) {
    return new ModuleUnavailable({ detail: `The project has not switched on the module ${access.module}.` })
  }
  if (!credential.membership) {
    return new MembershipUnavailable({ detail: `The key is bound to the member ${credential.memberId}.` })
  }
  if (!credential.scopes.includes(access.scope)) {
    return new ScopeMissing({
      detail: `The operation requires the scope ${access.scope}.`,
      requiredScope: access.scope
    })
  }
  return undefined
}
