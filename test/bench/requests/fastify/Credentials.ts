/** Bearer tokens (contract §3): verified against a cache that holds a key for 850 ms, like the service's. */
import type { Pool } from "pg"
import { createHash, timingSafeEqual } from "node:crypto"
import { crc32 } from "node:zlib"
import { Problem } from "./Problem.ts"
import { findKey, touchKey } from "./Sql.ts"

export type Policy = "read" | "write"

/** A row of `findKey`, with the limits that the project does not set. */
export interface Credential {
  readonly projectId: string
  readonly keyId: string
  readonly tokenHash: Buffer
  readonly scopes: ReadonlyArray<string>
  readonly membership: boolean
  readonly modules: ReadonlyArray<string>
  readonly entitlements: ReadonlyArray<string>
  readonly rateLimits: Record<Policy, { readonly limit: number; readonly windowSeconds: number }>
  readonly expiresAt: Date
  lastUsedAt: Date | null
}

const [timeToLive, usageResolution, capacity] = [850, 60_000, 10_000]
const defaults = { read: { limit: 1200, windowSeconds: 60 }, write: { limit: 300, windowSeconds: 60 } }

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const pattern = /^dk_([0-9A-Za-z]{12})_[0-9A-Za-z]{32}([0-9A-Za-z]{6})$/

const checksum = (text: string): string => {
  let [rest, digits] = [crc32(text), ""]
  for (; digits.length < 6; rest = Math.floor(rest / 62)) digits = alphabet.charAt(rest % 62) + digits
  return digits
}

const keyIdOf = (token: string): string | undefined => {
  const match = pattern.exec(token)
  return match?.[1] !== undefined && match[2] === checksum(token.slice(0, -6)) ? match[1] : undefined
}

const invalid = (
  code = "credential_invalid",
  title = "The credential is not valid.",
  error = ', error="invalid_token"'
) =>
  new Problem(401, code, title, "Send a token of the project that is in force.", {
    "www-authenticate": `Bearer realm="developer-api"${error}`
  })

const missing = () => invalid("credential_missing", "The request carries no credential.", "")

/** Creates a function that verifies an `authorization` header and returns its credential. */
export const makeVerify = (pool: Pool) => {
  const cache = new Map<string, { readonly entry: Promise<Credential | undefined>; until: number }>()

  const read = async (keyId: string): Promise<Credential | undefined> => {
    const [row] = (await pool.query<Credential>({ name: "findKey", text: findKey, values: [keyId] })).rows
    return row === undefined ? undefined : { ...row, rateLimits: { ...defaults, ...row.rateLimits } }
  }

  const cached = (keyId: string, now: number): Promise<Credential | undefined> => {
    const hit = cache.get(keyId)
    if (hit !== undefined && hit.until > now) return hit.entry
    if (cache.size >= capacity) cache.delete(cache.keys().next().value ?? keyId)
    const entry = read(keyId)
    // The lifetime starts before the read, because the data of a slow read is already old.
    cache.set(keyId, { entry, until: now + timeToLive })
    entry.catch(() => cache.delete(keyId))
    return entry
  }

  const touch = (entry: Credential, now: number) => {
    entry.lastUsedAt = new Date(now)
    const values = [entry.projectId, entry.keyId, entry.lastUsedAt, new Date(now - usageResolution)]
    pool.query({ name: "touchKey", text: touchKey, values }).catch(() => undefined)
  }

  return async (authorization: string | undefined): Promise<Credential> => {
    if (authorization === undefined) throw missing()
    const space = authorization.indexOf(" ")
    if (authorization.slice(0, space).toLowerCase() !== "bearer") throw invalid()
    const token = authorization.slice(space + 1)
    const keyId = keyIdOf(token)
    const now = Date.now()
    const entry = keyId === undefined ? undefined : await cached(keyId, now)
    if (entry === undefined || entry.expiresAt.getTime() <= now) throw invalid()
    if (!timingSafeEqual(entry.tokenHash, createHash("sha256").update(token).digest())) throw invalid()
    if (now - (entry.lastUsedAt?.getTime() ?? 0) >= usageResolution) touch(entry, now)
    return entry
  }
}

/** Checks entitlement, module, membership and scope, in the contract's order. */
export const authorize = ({ entitlements, membership, modules, scopes }: Credential, scope: string): void => {
  const [what, detail] = !entitlements.includes("developer_api")
    ? ["entitlement_unavailable", "The project is not entitled to the developer API."]
    : !modules.includes("crm")
      ? ["module_unavailable", "The module of this operation is not enabled in the project."]
      : !membership
        ? ["membership_unavailable", "The member behind the credential is not active."]
        : !scopes.includes(scope)
          ? ["scope_missing", "The credential lacks the scope of this operation."]
          : []
  if (what === undefined || detail === undefined) return
  const challenge = { "www-authenticate": `Bearer error="insufficient_scope", scope="${scope}"` }
  throw new Problem(403, what, detail, detail, what === "scope_missing" ? challenge : {})
}
