/** Sign-in links to the console. A link works once, and expires. The database stores only the digest of its code. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { createHash, randomBytes } from "node:crypto"
import { insertServiceEntry } from "../../operators/Audit.ts"

const lifetime = "10 minutes"

/** The path of a link. A GET only shows a form, and its POST redeems the link. So software that previews links redeems none. */
export const signInPath = "/console/enter"

const digestOf = (code: string) => createHash("sha256").update(code).digest()

interface Link {
  readonly code: string
  readonly expiresAt: Date
}

export const issue = Effect.fn("SignInLinks.issue")(function* (sql: SqlClient.SqlClient, actor: string) {
  const code = randomBytes(32).toString("base64url")
  const rows = yield* Effect.orDie(sql<{ readonly expiresAt: Date }>`
    WITH expired AS (DELETE FROM console_links WHERE expires_at <= now())
    INSERT INTO console_links (digest, expires_at, actor)
    VALUES (${digestOf(code)}::bytea, now() + ${lifetime}::interval, ${actor})
    RETURNING expires_at AS "expiresAt"`)
  return rows.map(({ expiresAt }): Link => ({ code, expiresAt }))
})

/**
 * Redeems a link, and records the sign-in. Returns one row with the current time, in milliseconds since 1970, and the identity of the database, and the user
 * who issued the link, or no row if the link is invalid. If several requests use a link at once, only one redeems it.
 */
export const redeem = (sql: SqlClient.SqlClient, code: string) => sql<{
  readonly now: number
  readonly database: string
  readonly actor: string
}>`
  WITH redeemed AS (
    DELETE FROM console_links WHERE digest = ${digestOf(code)}::bytea AND expires_at > now() RETURNING actor
  ),
  audited AS (
    ${insertServiceEntry(sql, { action: "console.sign_in", target: "console" }, sql`SELECT actor FROM redeemed`)}
  )
  SELECT (extract(epoch FROM now()) * 1000)::float8 AS now, ${databaseIdentity(sql)} AS database, actor FROM redeemed`

/** SQL of the identity of the database, which a failover keeps: that of its cluster, and its own in the cluster. */
export const databaseIdentity = (sql: SqlClient.SqlClient) => sql`
  (SELECT system_identifier FROM pg_control_system()) || '/' || (SELECT oid FROM pg_database WHERE datname = current_database())`
