/**
 * The statements: the service's text, which the bench compares while both run. One difference: here a value that stands
 * in several places is one parameter. Prepared by name, so PostgreSQL parses each once per connection.
 */

const columns = `
  id, display_name AS "displayName", first_name AS "firstName", last_name AS "lastName", email, phone, tags,
  external_id AS "externalId", organization_id AS "organizationId", responsible_member_id AS "responsibleMemberId",
  status, version, created_at AS "createdAt", updated_at AS "updatedAt", archived_at AS "archivedAt"`

export const findClient = `SELECT ${columns} FROM clients WHERE project_id = $1 AND id = $2`

const list = (where: string, limit: string) => `
  SELECT ${columns} FROM clients
  WHERE project_id = $1 ${where}
  ORDER BY created_at DESC, id DESC
  LIMIT ${limit}`

/** The lists: of all or of one status ($2), from the start or after a record named by its id or the id's digest. */
export const listClients = (ofStatus: boolean, after: "id" | "digest" | undefined): string => {
  const n = ofStatus ? 3 : 2
  const status = ofStatus ? "AND status = $2" : ""
  if (after === undefined) return list(status, `$${n}`)
  const id = `(
    SELECT id FROM "clients"
    WHERE project_id = $1 AND created_at = $${n}::timestamptz AND sha256(convert_to(id, 'UTF8')) = $${n + 1}
  )`
  const last = after === "id" ? `$${n + 1}` : id
  return list(`${status} AND (created_at, id) < ($${n}::timestamptz, ${last})`, `$${n + 2}`)
}

/** $1 project, $2 id, $3 display name, $4 first, $5 last, $6 email, $7 phone, $8 tags, $9 external id, $10 at, $11 key, $12 fingerprint. */
export const createClient = `
  WITH project AS MATERIALIZED (
    SELECT project_id, contact_capacity FROM projects WHERE project_id = $1 FOR KEY SHARE NOWAIT
  ),
  seat AS MATERIALIZED (
    SELECT projects.project_id, projects.active_clients < projects.contact_capacity AS free
    FROM projects JOIN project USING (project_id)
    WHERE project.contact_capacity IS NOT NULL
    FOR NO KEY UPDATE OF projects),
  verdict AS (
    SELECT CASE WHEN seat.free IS FALSE THEN 'contact_capacity_exhausted' END AS failure,
           $2::text AS resource_id, true AS changed, 1 AS version
    FROM project LEFT JOIN seat ON true
  ),
  claim AS (
    INSERT INTO idempotency_keys (project_id, key, fingerprint, resource_id, changed, version, created_at)
    SELECT $1::text, $11::text, $12::bytea, resource_id, changed, version, $10::timestamptz
    FROM verdict WHERE failure IS NULL
    ON CONFLICT (project_id, key) DO NOTHING
    RETURNING changed
  ),
  seated AS (
    UPDATE projects SET active_clients = active_clients + 1
    FROM claim, seat WHERE projects.project_id = seat.project_id
  ),
  created AS (
    INSERT INTO clients (project_id, id, display_name, first_name, last_name, email, phone, tags, external_id,
                         status, version, created_at, updated_at)
    SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text[], $9::text,
           'active', 1, $10::timestamptz, $10::timestamptz
    FROM claim
  )
  SELECT failure, resource_id AS "resourceId", changed, version, EXISTS (SELECT FROM claim) AS claimed FROM verdict`

export const findOutcome = `
  SELECT fingerprint, resource_id AS "resourceId", changed, version
  FROM idempotency_keys WHERE project_id = $1 AND key = $2`

export const findKey = `
  SELECT k.project_id AS "projectId", k.key_id AS "keyId", k.token_hash AS "tokenHash", k.scopes,
         k.member_id AS "memberId", coalesce(m.active, true) AS membership, p.modules, p.entitlements,
         p.rate_limits AS "rateLimits", k.expires_at AS "expiresAt", k.last_used_at AS "lastUsedAt"
  FROM api_keys k
    JOIN projects p ON p.project_id = k.project_id
    LEFT JOIN members m ON m.project_id = k.project_id AND m.id = k.member_id
  WHERE k.key_id = $1 AND k.revoked_at IS NULL`

export const touchKey = `
  UPDATE api_keys SET last_used_at = $3
  WHERE project_id = $1 AND key_id = $2 AND (last_used_at IS NULL OR last_used_at <= $4)`
