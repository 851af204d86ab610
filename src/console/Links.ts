/** Links to the console: each works once, for a while. The database holds the digest of its code alone. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { createHash, randomBytes } from "node:crypto"

/** How long a link works. */
const life = "10 minutes"

/** The page that a link leads to. */
export const entrance = "/console/enter"

const digestOf = (code: string) => createHash("sha256").update(code).digest()

export interface Link {
  readonly code: string
  readonly expiresAt: Date
}

/** Makes a link, and forgets those that have expired. */
export const issue = Effect.fn("Links.issue")(function* (sql: SqlClient.SqlClient) {
  const code = randomBytes(32).toString("base64url")
  const rows = yield* Effect.orDie(sql<{ readonly expiresAt: Date }>`
    WITH expired AS (DELETE FROM console_links WHERE expires_at <= now())
    INSERT INTO console_links (digest, expires_at) VALUES (${digestOf(code)}::bytea, now() + ${life}::interval)
    RETURNING expires_at AS "expiresAt"`)
  return rows.map(({ expiresAt }): Link => ({ code, expiresAt }))
})

/** Uses a link up. Returns whether it still worked: of several that follow it at once, for one. */
export const redeem = Effect.fn("Links.redeem")(function* (sql: SqlClient.SqlClient, code: string) {
  const used = yield* sql`
    DELETE FROM console_links WHERE digest = ${digestOf(code)}::bytea AND expires_at > now() RETURNING 1`
  return used.length === 1
})
