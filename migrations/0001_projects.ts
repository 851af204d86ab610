/** Projects, who belongs to them, the keys that open them, and the outcomes of their commands. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Ids compare by byte, whatever the database's collation: pages are ordered by them.
  yield* sql`
    CREATE TABLE projects (
      project_id       text COLLATE "C" PRIMARY KEY,
      name             text NOT NULL,
      time_zone        text NOT NULL,
      contact_capacity integer CHECK (contact_capacity >= 0),
      -- Kept only while there is a capacity, so that unlimited projects never contend for this row.
      active_clients   integer NOT NULL DEFAULT 0,
      modules          text[] NOT NULL,
      entitlements     text[] NOT NULL,
      rate_limits      jsonb NOT NULL,
      created_at       timestamptz(3) NOT NULL
    )`

  yield* sql`
    CREATE TABLE members (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      id         text COLLATE "C" NOT NULL,
      name       text NOT NULL,
      email      text,
      active     boolean NOT NULL,
      PRIMARY KEY (project_id, id)
    )`

  yield* sql`
    CREATE TABLE organizations (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      id         text COLLATE "C" NOT NULL,
      name       text NOT NULL,
      archived   boolean NOT NULL,
      PRIMARY KEY (project_id, id)
    )`

  // A token names its key but not its project, so the key id is unique across projects.
  yield* sql`
    CREATE TABLE api_keys (
      project_id   text COLLATE "C" NOT NULL REFERENCES projects,
      key_id       text COLLATE "C" NOT NULL,
      token_hash   bytea NOT NULL,
      name         text NOT NULL,
      scopes       text[] NOT NULL,
      member_id    text COLLATE "C",
      -- As issued: a rotation gives the same again, whatever is left of this one.
      lifetime     interval NOT NULL,
      expires_at   timestamptz(3) NOT NULL,
      revoked_at   timestamptz(3),
      last_used_at timestamptz(3),
      created_at   timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, key_id),
      CONSTRAINT api_keys_key_id UNIQUE (key_id),
      FOREIGN KEY (project_id, member_id) REFERENCES members (project_id, id)
    )`

  yield* sql`
    CREATE TABLE idempotency_keys (
      project_id  text COLLATE "C" NOT NULL REFERENCES projects,
      key         text COLLATE "C" NOT NULL,
      fingerprint bytea NOT NULL,
      resource_id text COLLATE "C" NOT NULL,
      changed     boolean NOT NULL,
      version     integer NOT NULL,
      created_at  timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, key)
    )`
  yield* sql`CREATE INDEX idempotency_keys_age ON idempotency_keys (project_id, created_at)`
})
