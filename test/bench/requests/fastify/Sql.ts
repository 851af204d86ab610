/**
 * The statements, by hand. They are prepared by name, so PostgreSQL parses each once per connection. The statements of
 * mutations do what the service's do, for one command.
 */

/** The members that a create and a patch set, with their columns and types. */
const fields = [
  ["displayName", "display_name", "text"],
  ["firstName", "first_name", "text"],
  ["lastName", "last_name", "text"],
  ["email", "email", "text"],
  ["phone", "phone", "text"],
  ["tags", "tags", "text[]"],
  ["externalId", "external_id", "text"],
  ["marketingConsent", "marketing_consent", "boolean"],
  ["suppressed", "suppressed", "boolean"]
] as const

/** Returns SQL for each of these fields, separated by commas. */
const each = (sql: (column: string, member: string, type: string, index: number) => string) =>
  fields.map(([member, column, type], i) => sql(column, member, type, i)).join(", ")

/** Returns the values of these fields for the parameters of a create. */
export const valuesOf = (body: Readonly<Record<string, unknown>>): ReadonlyArray<unknown> =>
  fields.map(([member, , type]) => body[member] ?? (type === "text[]" ? [] : type === "boolean" ? false : null))

/** A time in UTC is of the type whose text the pool converts to that of JSON. */
const columns = `
  id, ${each((column, member) => `${column} AS "${member}"`)}, organization_id AS "organizationId",
  responsible_member_id AS "responsibleMemberId", status, version, created_at AT TIME ZONE 'UTC' AS "createdAt",
  updated_at AT TIME ZONE 'UTC' AS "updatedAt", archived_at AT TIME ZONE 'UTC' AS "archivedAt"`

export const findClient = `SELECT ${columns} FROM clients WHERE project_id = $1 AND id = $2`

/** From the start, or after a record. */
export const listClients = (isAfter: boolean): string => `
  SELECT ${columns} FROM clients
  WHERE project_id = $1 AND created_at > '-infinity' ${isAfter ? "AND (created_at, id) < ($3::timestamptz, $4)" : ""}
  ORDER BY created_at DESC, id DESC
  LIMIT $2`

/**
 * Returns one statement that claims the key, applies a change and returns the outcome. $1 project, $2 key, $3 fingerprint,
 * $4 time; the values of the change follow. No row: a project file is being applied, or was while the statement ran.
 */
const mutation = (verdict: string, effect: string) => `
  WITH project AS MATERIALIZED (
    SELECT project_id, contact_capacity, default_pipeline_id, time_zone FROM projects
    WHERE project_id = $1 AND revision = enter_project($1)
  ),
  ${verdict},
  claim AS (
    INSERT INTO idempotency_keys (project_id, key, fingerprint, resource_id, changed, version, created_at)
    SELECT $1::text, $2::text, $3::bytea, resource_id, changed, version, $4::timestamptz
    FROM verdict WHERE failure IS NULL
    ON CONFLICT (project_id, key) DO NOTHING
    RETURNING changed
  ),
  ${effect}
  SELECT failure, resource_id AS "resourceId", changed, version, EXISTS (SELECT FROM claim) AS claimed
  FROM verdict`

const names = each((column) => column)

/** $5 id, $6 and on: the fields in their order. Locks the counter of active clients, if the project has a capacity. */
export const createClient = mutation(
  `
  capacity AS MATERIALIZED (
    SELECT projects.project_id, projects.active_clients < projects.contact_capacity AS free
    FROM projects JOIN project USING (project_id)
    WHERE project.contact_capacity IS NOT NULL
    FOR NO KEY UPDATE OF projects
  ),
  verdict AS (
    SELECT CASE WHEN capacity.free IS FALSE THEN 'contact_capacity_exhausted' END AS failure,
           $5::text AS resource_id, true AS changed, 1 AS version
    FROM project LEFT JOIN capacity ON true
  )`,
  `
  counted AS (
    UPDATE projects SET active_clients = active_clients + 1
    FROM claim, capacity WHERE projects.project_id = capacity.project_id
  ),
  created AS (
    INSERT INTO clients (project_id, id, ${names}, status, version, created_at, updated_at)
    SELECT $1::text, $5::text, ${each((_column, _member, type, i) => `$${6 + i}::${type}`)},
           'active', 1, $4::timestamptz, $4::timestamptz
    FROM claim
  )`
)

/** $5 client, $6 the patch as JSON. It sets what a create sets, and not the status or the references. */
export const patchClient = mutation(
  `
  target AS MATERIALIZED (
    SELECT clients.* FROM project JOIN clients USING (project_id) WHERE clients.id = $5 FOR NO KEY UPDATE OF clients
  ),
  next AS MATERIALIZED (
    SELECT ${each((column, member, type) => {
      const value = type === "text[]" ? `ARRAY(SELECT jsonb_array_elements_text(p->'${member}'))` : `p->>'${member}'`
      return `CASE WHEN p ? '${member}' THEN (${value})::${type} ELSE ${column} END AS ${column}`
    })}
    FROM target, (SELECT $6::jsonb AS p) AS patch
  ),
  verdict AS (
    SELECT CASE WHEN id IS NULL THEN 'client_not_found' WHEN status = 'archived' THEN 'client_archived' END AS failure,
           $5::text AS resource_id, differs AS changed, version + differs::int AS version
    FROM project LEFT JOIN target ON true
      LEFT JOIN LATERAL (SELECT (SELECT next FROM next) IS DISTINCT FROM ROW(${each((column) => `target.${column}`)}) AS differs) AS diff ON true
  )`,
  `
  updated AS (
    UPDATE clients SET (${names}) = (SELECT ${names} FROM next), version = clients.version + 1,
                       updated_at = greatest(clients.updated_at, $4::timestamptz)
    FROM claim WHERE clients.project_id = $1 AND clients.id = $5 AND claim.changed
  )`
)

export const findOutcome = `
  SELECT fingerprint, resource_id AS "resourceId", changed, version
  FROM idempotency_keys WHERE project_id = $1 AND key = $2`

export const findKey = `
  SELECT k.project_id AS "projectId", k.key_id AS "keyId", k.token_hash AS "tokenHash", k.scopes,
         coalesce(m.active, true) AS membership, p.modules, p.entitlements,
         p.rate_limits AS "rateLimits", k.expires_at AS "expiresAt", k.last_used_at AS "lastUsedAt"
  FROM api_keys k
    JOIN projects p ON p.project_id = k.project_id
    LEFT JOIN members m ON m.project_id = k.project_id AND m.id = k.member_id
  WHERE k.key_id = $1 AND k.revoked_at IS NULL`

export const touchKey = `
  UPDATE api_keys SET last_used_at = $3
  WHERE project_id = $1 AND key_id = $2 AND (last_used_at IS NULL OR last_used_at <= $4)`
