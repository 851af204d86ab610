/** The rest of the CRM: pipelines, deals, notes, tickets, tasks, and what a loyalty programme knows of clients. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    CREATE TABLE pipelines (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      id         text COLLATE "C" NOT NULL,
      name       text NOT NULL,
      PRIMARY KEY (project_id, id)
    )`

  // A project file replaces the stages of a pipeline whole, so what refers to them is checked when it is through.
  yield* sql`
    CREATE TABLE stages (
      project_id  text COLLATE "C" NOT NULL REFERENCES projects,
      id          text COLLATE "C" NOT NULL,
      pipeline_id text COLLATE "C" NOT NULL,
      name        text NOT NULL,
      -- Their order on the pipeline, from 0.
      position    integer NOT NULL,
      PRIMARY KEY (project_id, id),
      UNIQUE (project_id, pipeline_id, id),
      FOREIGN KEY (project_id, pipeline_id) REFERENCES pipelines (project_id, id)
    )`

  yield* sql`
    ALTER TABLE projects
      -- Grows by one with each project file that is applied.
      ADD COLUMN revision integer NOT NULL DEFAULT 0,
      ADD COLUMN default_pipeline_id text COLLATE "C",
      ADD FOREIGN KEY (project_id, default_pipeline_id) REFERENCES pipelines (project_id, id)
        DEFERRABLE INITIALLY DEFERRED`

  yield* sql`
    CREATE TABLE deals (
      project_id            text COLLATE "C" NOT NULL REFERENCES projects,
      id                    text COLLATE "C" NOT NULL,
      title                 text NOT NULL,
      client_id             text COLLATE "C",
      organization_id       text COLLATE "C",
      pipeline_id           text COLLATE "C" NOT NULL,
      stage_id              text COLLATE "C" NOT NULL,
      status                text NOT NULL CHECK (status IN ('open', 'won', 'lost')),
      lifecycle             text NOT NULL CHECK (lifecycle IN ('active', 'archived')),
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
      FOREIGN KEY (project_id, organization_id) REFERENCES organizations (project_id, id),
      FOREIGN KEY (project_id, responsible_member_id) REFERENCES members (project_id, id),
      FOREIGN KEY (project_id, pipeline_id, stage_id) REFERENCES stages (project_id, pipeline_id, id)
        DEFERRABLE INITIALLY DEFERRED,
      CHECK ((amount_minor IS NULL) = (currency IS NULL)),
      CHECK ((status = 'open') = (closed_at IS NULL)),
      CHECK (status = 'lost' OR lost_reason IS NULL)
    )`
  // One index per shape of the list within a lifecycle; a list of both lifecycles merges two.
  yield* sql`CREATE INDEX deals_by_lifecycle ON deals (project_id, lifecycle, created_at DESC, id DESC)`
  yield* sql`CREATE INDEX deals_by_status ON deals (project_id, lifecycle, status, created_at DESC, id DESC)`

  yield* sql`
    CREATE TABLE notes (
      project_id    text COLLATE "C" NOT NULL REFERENCES projects,
      id            text COLLATE "C" NOT NULL,
      deal_id       text COLLATE "C" NOT NULL,
      body          text NOT NULL,
      author_key_id text COLLATE "C" NOT NULL,
      version       integer NOT NULL,
      created_at    timestamptz(3) NOT NULL,
      updated_at    timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, id),
      FOREIGN KEY (project_id, deal_id) REFERENCES deals (project_id, id),
      FOREIGN KEY (project_id, author_key_id) REFERENCES api_keys (project_id, key_id)
    )`
  yield* sql`CREATE INDEX notes_by_deal ON notes (project_id, deal_id, created_at DESC, id DESC)`

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
  // A client without a loyalty record is one with a balance of 0, no card, no level and no offers.
  yield* sql`
    ALTER TABLE clients
      ADD COLUMN loyalty_card_number text,
      ADD COLUMN loyalty_level_id text COLLATE "C",
      ADD COLUMN loyalty_balance integer NOT NULL DEFAULT 0 CHECK (loyalty_balance >= 0),
      ADD COLUMN ready_stamp_offer_ids text[] NOT NULL DEFAULT '{}',
      ADD FOREIGN KEY (project_id, loyalty_level_id) REFERENCES loyalty_levels (project_id, id)`
})
