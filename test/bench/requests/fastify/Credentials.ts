/** Bearer tokens (contract §3): verified against a cache that holds a key for 850 ms, like the service's. */
import type { Pool } from "pg"
import { createHash, timingSafeEqual } from "node:crypto"
import { crc32 } from "node:zlib"
import { Problem } from "./Problem.ts"
import { findKey, touchKey } from "./Sql.ts"

export type Policy = "read" | "write"

export interface Limit {
  readonly limit: number
  readonly windowSeconds: number
}

export interface Credential {
  readonly projectId: string
  readonly keyId: string
  readonly scopes: ReadonlyArray<string>
  readonly memberId: string | null
  readonly membership: boolean
  readonly modules: ReadonlyArray<string>
  readonly entitlements: ReadonlyArray<string>
  readonly rateLimits: Record<Policy, Limit>
}

interface Row extends Omit<Credential, "rateLimits"> {
  readonly tokenHash: Buffer
  readonly expiresAt: Date
  readonly lastUsedAt: Date | null
  readonly rateLimits: Partial<Record<Policy, Limit>>
}

interface Entry {
  readonly credential: Credential
  readonly tokenHash: Buffer
  readonly expiresAt: number
  lastUsedAt: number
}

const timeToLive = 850
const usageResolution = 60_000
const capacity = 10_000
const defaults = { read: { limit: 1200, windowSeconds: 60 }, write: { limit: 300, windowSeconds: 60 } }

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const pattern = /^dk_([0-9A-Za-z]{12})_[0-9A-Za-z]{32}([0-9A-Za-z]{6})$/

const checksum = (text: string): string => {
  let rest = crc32(text)
  let digits = ""
  for (let i = 0; i < 6; i++) {
    digits = alphabet.charAt(rest % 62) + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

const keyIdOf = (token: string): string | undefined => {
  const match = pattern.exec(token)
  return match?.[1] !== undefined && match[2] === checksum(token.slice(0, -6)) ? match[1] : undefined
}

const missing = () =>
  new Problem(401, "credential_missing", "The request carries no credential.", "Send a project token.", {
    headers: { "www-authenticate": 'Bearer realm="developer-api"' }
  })

const invalid = () =>
  new Problem(401, "credential_invalid", "The credential is not valid.", "The token is unknown or not in force.", {
    headers: { "www-authenticate": 'Bearer realm="developer-api", error="invalid_token"' }
  })

/** Creates a function that verifies an `authorization` header and returns its credential. */
export const makeVerify = (pool: Pool) => {
  const cache = new Map<string, { readonly entry: Promise<Entry | undefined>; until: number }>()

  const read = async (keyId: string): Promise<Entry | undefined> => {
    const { rows } = await pool.query<Row>({ name: "findKey", text: findKey, values: [keyId] })
    if (rows[0] === undefined) return undefined
    const { expiresAt, lastUsedAt, rateLimits, tokenHash, ...credential } = rows[0]
    return {
      credential: { ...credential, rateLimits: { ...defaults, ...rateLimits } },
      tokenHash,
      expiresAt: expiresAt.getTime(),
      lastUsedAt: lastUsedAt?.getTime() ?? 0
    }
  }

  const cached = (keyId: string, now: number): Promise<Entry | undefined> => {
    const hit = cache.get(keyId)
    if (hit !== undefined && hit.until > now) return hit.entry
    if (cache.size >= capacity) cache.delete(cache.keys().next().value ?? keyId)
    const entry = read(keyId)
    // The lifetime starts before the read, because the data of a slow read is already old.
    cache.set(keyId, { entry, until: now + timeToLive })
    entry.catch(() => cache.delete(keyId))
    return entry
  }

  const touch = (entry: Entry, now: number) => {
    entry.lastUsedAt = now
    const { keyId, projectId } = entry.credential
    const values = [projectId, keyId, new Date(now), new Date(now - usageResolution)]
    pool.query({ name: "touchKey", text: touchKey, values }).catch(() => undefined)
  }

  return async (authorization: string | undefined): Promise<Credential> => {
    if (authorization === undefined) throw missing()
    const space = authorization.indexOf(" ")
    if (authorization.slice(0, space).toLowerCase() !== "bearer") throw invalid()
    const token = authorization.slice(space + 1)
    const keyId = keyIdOf(token)
    if (keyId === undefined) throw invalid()
    const now = Date.now()
    const entry = await cached(keyId, now)
    if (entry === undefined) throw invalid()
    if (!timingSafeEqual(entry.tokenHash, createHash("sha256").update(token).digest())) throw invalid()
    if (entry.expiresAt <= now) throw invalid()
    if (now - entry.lastUsedAt >= usageResolution) touch(entry, now)
    return entry.credential
  }
}

const forbidden = (code: string, title: string, headers: Record<string, string> = {}) =>
  new Problem(403, code, title, title, { headers })

/** Checks entitlement, module, membership and scope, in the contract's order. */
export const authorize = (credential: Credential, scope: string): void => {
  if (!credential.entitlements.includes("developer_api")) {
    throw forbidden("entitlement_unavailable", "The project is not entitled to the developer API.")
  }
  if (!credential.modules.includes("crm")) {
    throw forbidden("module_unavailable", "The module of this operation is not enabled in the project.")
  }
  if (!credential.membership) {
    throw forbidden("membership_unavailable", "The member behind the credential is not active.")
  }
  if (!credential.scopes.includes(scope)) {
    throw forbidden("scope_missing", "The credential lacks the scope of this operation.", {
      "www-authenticate": `Bearer error="insufficient_scope", scope="${scope}"`
    })
  }
}
