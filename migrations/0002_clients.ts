/** CRM clients. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE clients (
      project_id            text COLLATE "C" NOT NULL REFERENCES projects,
      id                    text COLLATE "C" NOT NULL,
      display_name          text NOT NULL,
      first_name            text,
      last_name             text,
      email                 text,
      phone                 text,
      organization_id       text COLLATE "C",
      responsible_member_id text COLLATE "C",
      tags                  text[] NOT NULL,
      external_id           text,
      status                text NOT NULL CHECK (status IN ('active', 'archived')),
      version               integer NOT NULL,
      created_at            timestamptz(3) NOT NULL,
      updated_at            timestamptz(3) NOT NULL,
      archived_at           timestamptz(3),
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, organization_id) REFERENCES organizations (project_id, id),
      FOREIGN KEY (project_id, responsible_member_id) REFERENCES members (project_id, id),
      CHECK ((status = 'archived') = (archived_at IS NOT NULL))
    )`

  // One index per shape of the list: all clients, and those of one status.
  yield* sql`CREATE INDEX clients_by_age ON clients (project_id, created_at DESC, id DESC)`
  yield* sql`CREATE INDEX clients_by_status ON clients (project_id, status, created_at DESC, id DESC)`
})
