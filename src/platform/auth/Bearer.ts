/** Authentication and authorization of a request: `Authorization` header → principal (contract §3). */
import { Effect, Option } from "effect"
import type { Access } from "../../api/Access.ts"
import {
  CredentialInvalid,
  CredentialMissing,
  EntitlementUnavailable,
  MembershipUnavailable,
  ModuleUnavailable,
  ScopeMissing,
  type ServiceUnavailable
} from "../../api/Problems.ts"
import { type Credential, Credentials } from "./Credentials.ts"
import { present, type Presented } from "./Token.ts"

type Refusal =
  | CredentialMissing
  | CredentialInvalid
  | EntitlementUnavailable
  | ModuleUnavailable
  | MembershipUnavailable
  | ScopeMissing
  | ServiceUnavailable

/** Verifies the token of an `Authorization` header that arrived on a connection, and its right to an operation. */
type Authorize = (
  authorization: string | undefined,
  connection: object,
  access: Access["Service"]
) => Effect.Effect<Credential, Refusal>

export const makeAuthorize: Effect.Effect<Authorize, never, Credentials> = Effect.map(
  Credentials,
  (credentials): Authorize =>
    (authorization, connection, access) => {
      if (authorization === undefined) return Effect.fail(missing())
      const token = tokenOf(authorization, connection)
      if (token === undefined) return Effect.fail(invalid())
      return Effect.flatMap(credentials.verify(token), (credential): Effect.Effect<Credential, Refusal> => {
        if (Option.isNone(credential)) return Effect.fail(invalid())
        const refusal = refuse(credential.value, access)
        return refusal === undefined ? Effect.succeed(credential.value) : Effect.fail(refusal)
      })
    }
)

/** The scheme is case-insensitive, and one or more spaces follow it (RFC 9110, section 11.4). */
const bearer = /^bearer +(.*[^ ].*)$/i

/** The last well-formed token of each connection. It is parsed and hashed again only if the next request has another one. */
const lastTokens = new WeakMap<object, { readonly authorization: string; readonly token: Presented }>()

/** Parses an `Authorization` header; undefined for a malformed one. */
const tokenOf = (authorization: string, connection: object): Presented | undefined => {
  const last = lastTokens.get(connection)
  if (last?.authorization === authorization) return last.token
  const text = bearer.exec(authorization)?.[1]
  const token = text === undefined ? undefined : present(text)
  if (token !== undefined) lastTokens.set(connection, { authorization, token })
  return token
}

const missing = () => new CredentialMissing({ detail: "Send a project token as `Authorization: Bearer dk_…`." })

const invalid = () => new CredentialInvalid({ detail: "The token is unknown, malformed, expired or revoked." })

/** Checks entitlement, module, membership and scope, in the order of the contract. */
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
