/** The CRM: organizations, loyalty programmes, clients, pipelines, deals, notes, tickets and tasks. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE organizations (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      id         text COLLATE "C" NOT NULL,
      name       text NOT NULL,
      archived   boolean NOT NULL,
      PRIMARY KEY (project_id, id)
    )`

  yield* sql`
    CREATE TABLE loyalty_levels (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      id         text COLLATE "C" NOT NULL,
      name       text NOT NULL,
      PRIMARY KEY (project_id, id)
    )`
  yield* sql`
    CREATE TABLE stamp_offers (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      id         text COLLATE "C" NOT NULL,
      name       text NOT NULL,
      PRIMARY KEY (project_id, id)
    )`

  yield* sql`
    CREATE TABLE clients (
      project_id            text COLLATE "C" NOT NULL,
      id                    text COLLATE "C" NOT NULL,
      display_name          text NOT NULL,
      first_name            text,
      last_name             text,
      email                 text,
      phone                 text COLLATE "C",
      organization_id       text COLLATE "C",
      responsible_member_id text COLLATE "C",
      tags                  text[] NOT NULL,
      external_id           text COLLATE "C",
      status                text COLLATE "C" NOT NULL CHECK (status IN ('active', 'archived')),
      -- A client without a loyalty record has a balance of 0, and no card, level or offers.
      loyalty_card_number   text,
      loyalty_level_id      text COLLATE "C",
      loyalty_balance       integer NOT NULL DEFAULT 0 CHECK (loyalty_balance >= 0),
      ready_stamp_offer_ids text[] NOT NULL DEFAULT '{}',
      marketing_consent     boolean NOT NULL DEFAULT false,
      suppressed            boolean NOT NULL DEFAULT false,
      merged_into_client_id text COLLATE "C",
      version               integer NOT NULL,
      created_at            timestamptz(3) NOT NULL,
      updated_at            timestamptz(3) NOT NULL,
      archived_at           timestamptz(3),
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, organization_id) REFERENCES organizations (project_id, id),
      FOREIGN KEY (project_id, responsible_member_id) REFERENCES members (project_id, id),
      FOREIGN KEY (project_id, loyalty_level_id) REFERENCES loyalty_levels (project_id, id),
      FOREIGN KEY (project_id, merged_into_client_id) REFERENCES clients (project_id, id),
      CHECK ((status = 'archived') = (archived_at IS NOT NULL)),
      CHECK (merged_into_client_id <> id)
    )`
  // Here and below, each shape of a list has an index that only lists use: only lists state the condition of the index, which is
  // always true (`platform/requests/Pages.ts`). Without the condition, a look-up by key that is planned while the table is empty
  // could use the index instead of the primary key, and would read all records of a project.
  yield* sql`
    CREATE INDEX clients_by_age ON clients (project_id, created_at DESC, id DESC) WHERE created_at > '-infinity'`
  yield* sql`
    CREATE INDEX clients_by_status ON clients (project_id, status, created_at DESC, id DESC)
    WHERE created_at > '-infinity'`
  // For the removal of a client, which would otherwise read all clients of its project.
  yield* sql`
    CREATE INDEX clients_merged_into ON clients (project_id, merged_into_client_id)
    WHERE merged_into_client_id IS NOT NULL`
  // For an import preview, which finds clients by these values. The indexes are partial: a look-up by id that is planned while
  // the table is empty can't use them, and they have no entries for clients without the value.
  yield* sql`
    CREATE INDEX clients_by_external_id ON clients (project_id, external_id) WHERE external_id IS NOT NULL`
  // The same expression as in the preview. A mail address is ASCII, so the locale of the database does not matter.
  yield* sql`
    CREATE INDEX clients_by_email ON clients (project_id, lower(email COLLATE "C"))
    WHERE lower(email COLLATE "C") IS NOT NULL`
  yield* sql`CREATE INDEX clients_by_phone ON clients (project_id, phone) WHERE phone IS NOT NULL`

  yield* sql`
    CREATE TABLE pipelines (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      id         text COLLATE "C" NOT NULL,
      name       text NOT NULL,
      PRIMARY KEY (project_id, id)
    )`
  // A project file may name a pipeline that it creates, so this key is checked when the file has been applied.
  yield* sql`
    ALTER TABLE projects ADD FOREIGN KEY (project_id, default_pipeline_id) REFERENCES pipelines (project_id, id)
      DEFERRABLE INITIALLY DEFERRED`

  yield* sql`
    CREATE TABLE stages (
      project_id  text COLLATE "C" NOT NULL REFERENCES projects,
      id          text COLLATE "C" NOT NULL,
      pipeline_id text COLLATE "C" NOT NULL,
      name        text NOT NULL,
      -- Order in the pipeline, from 0.
      position    integer NOT NULL,
      PRIMARY KEY (project_id, id),
      UNIQUE (project_id, pipeline_id, id),
      FOREIGN KEY (project_id, pipeline_id) REFERENCES pipelines (project_id, id)
    )`

  // Many deals share an organization, a member or a stage, so triggers below replace the foreign keys to them.
  yield* sql`
    CREATE TABLE deals (
      project_id            text COLLATE "C" NOT NULL,
      id                    text COLLATE "C" NOT NULL,
      title                 text NOT NULL,
      client_id             text COLLATE "C",
      organization_id       text COLLATE "C",
      pipeline_id           text COLLATE "C" NOT NULL,
      stage_id              text COLLATE "C" NOT NULL,
      status                text COLLATE "C" NOT NULL CHECK (status IN ('open', 'won', 'lost')),
      lifecycle             text COLLATE "C" NOT NULL CHECK (lifecycle IN ('active', 'archived')),
      amount_minor          bigint CHECK (amount_minor BETWEEN 0 AND 9007199254740991),
      currency              text,
      expected_close_date   date,
      responsible_member_id text COLLATE "C",
      lost_reason           text,
      closed_at             timestamptz(3),
      version               integer NOT NULL,
      created_at            timestamptz(3) NOT NULL,
      updated_at            timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, client_id) REFERENCES clients (project_id, id),
      CHECK ((amount_minor IS NULL) = (currency IS NULL)),
      CHECK ((status = 'open') = (closed_at IS NULL)),
      CHECK (status = 'lost' OR lost_reason IS NULL)
    )`
  // An index without `lifecycle` is not needed: a list of both lifecycles merges two ranges of this index.
  yield* sql`
    CREATE INDEX deals_by_lifecycle ON deals (project_id, lifecycle, created_at DESC, id DESC)
    WHERE created_at > '-infinity'`
  yield* sql`
    CREATE INDEX deals_by_status ON deals (project_id, lifecycle, status, created_at DESC, id DESC)
    WHERE created_at > '-infinity'`
  yield* sql`
    CREATE TRIGGER referenced_by_deals_organization_id AFTER DELETE ON organizations
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
    EXECUTE FUNCTION keep_referenced('deals', 'organization_id', 'id')`
  yield* sql`
    CREATE TRIGGER referenced_by_deals_responsible_member_id AFTER DELETE ON members
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
    EXECUTE FUNCTION keep_referenced('deals', 'responsible_member_id', 'id')`
  // A project file replaces all stages of a pipeline, under a lock that keeps inserts of deals out. So references to removed
  // stages are checked when the file has been applied.
  yield* sql`
    CREATE FUNCTION keep_stages() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF NOT EXISTS (
        SELECT FROM stages
        WHERE project_id = OLD.project_id AND pipeline_id = OLD.pipeline_id AND id = OLD.id
      ) AND EXISTS (
        SELECT FROM deals
        WHERE project_id = OLD.project_id AND pipeline_id = OLD.pipeline_id AND stage_id = OLD.id
      ) THEN
        RAISE EXCEPTION 'deals still refer to stage %', OLD.id USING ERRCODE = 'foreign_key_violation';
      END IF;
      RETURN NULL;
    END $$`
  yield* sql`
    CREATE CONSTRAINT TRIGGER referenced_by_deals AFTER DELETE ON stages DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION keep_stages()`

  yield* sql`
    CREATE TABLE notes (
      project_id    text COLLATE "C" NOT NULL,
      id            text COLLATE "C" NOT NULL,
      deal_id       text COLLATE "C" NOT NULL,
      body          text NOT NULL,
      author_key_id text COLLATE "C" NOT NULL,
      version       integer NOT NULL,
      created_at    timestamptz(3) NOT NULL,
      updated_at    timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, deal_id) REFERENCES deals (project_id, id)
    )`
  yield* sql`
    CREATE INDEX notes_by_deal ON notes (project_id, deal_id, created_at DESC, id DESC)
    WHERE created_at > '-infinity'`
  yield* sql`
    CREATE TRIGGER referenced_by_notes_author_key_id AFTER DELETE ON api_keys
    REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
    EXECUTE FUNCTION keep_referenced('notes', 'author_key_id', 'key_id')`

  yield* sql`
    CREATE TABLE tickets (
      project_id     text COLLATE "C" NOT NULL REFERENCES projects,
      id             text COLLATE "C" NOT NULL,
      subject        text NOT NULL,
      status         text NOT NULL CHECK (status IN ('open', 'pending', 'resolved', 'closed')),
      client_id      text COLLATE "C",
      rating_score   smallint CHECK (rating_score BETWEEN 1 AND 5),
      rating_comment text,
      rating_by      text CHECK (rating_by IN ('customer', 'operator')),
      version        integer NOT NULL,
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, client_id) REFERENCES clients (project_id, id),
      CHECK ((rating_score IS NULL) = (rating_by IS NULL)),
      CHECK (rating_score IS NOT NULL OR rating_comment IS NULL)
    )`

  yield* sql`
    CREATE TABLE tasks (
      project_id   text COLLATE "C" NOT NULL REFERENCES projects,
      id           text COLLATE "C" NOT NULL,
      title        text NOT NULL,
      deal_id      text COLLATE "C",
      client_id    text COLLATE "C",
      assignee_id  text COLLATE "C",
      due_at       timestamptz(3),
      completed_at timestamptz(3),
      version      integer NOT NULL,
      created_at   timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, deal_id) REFERENCES deals (project_id, id),
      FOREIGN KEY (project_id, client_id) REFERENCES clients (project_id, id),
      FOREIGN KEY (project_id, assignee_id) REFERENCES members (project_id, id)
    )`
})
