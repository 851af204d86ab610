/** What installations have staged for import, and what their profiles make of it. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`
    ALTER TABLE installations
      ADD COLUMN profile_version integer,
      ADD COLUMN profile_mappings jsonb,
      -- Of the staged records, in their order: whether a file brings others is known without a look at them.
      ADD COLUMN staged_digest text,
      ADD CHECK ((profile_version IS NULL) = (profile_mappings IS NULL))`

  // One to an installation that has staged something: its digest, and what follows from the records and the profile
  // alone. That is judged when either changes, not with every preview.
  yield* sql`
    CREATE TABLE staged_batches (
      project_id         text COLLATE "C" NOT NULL REFERENCES projects,
      installation_id    text COLLATE "C" NOT NULL,
      digest             text NOT NULL,
      -- What it was judged by: the profile, and the rules of the release. Null without a profile.
      profile_version    integer,
      profile_mappings   jsonb,
      rules              integer,
      counts             json,
      duplicate_count    integer,
      unsupported_fields json,
      fingerprint        text,
      PRIMARY KEY (project_id, installation_id),
      FOREIGN KEY (project_id, installation_id) REFERENCES installations (project_id, id),
      CHECK (num_nulls(profile_version, profile_mappings, rules, counts, duplicate_count, unsupported_fields,
        fingerprint) IN (0, 7))
    )`

  // These refer to their batch alone, so that a write needs no lock on the project, which an apply may hold.
  yield* sql`
    CREATE TABLE staged_records (
      project_id      text COLLATE "C" NOT NULL,
      installation_id text COLLATE "C" NOT NULL,
      -- Its place, from 0, among the canonical forms of the batch: the order that the fingerprint takes them in.
      rank            integer NOT NULL,
      -- Its place, from 0, in the batch: of two that repeat each other, the later one is the duplicate.
      position        integer NOT NULL,
      entity_type     text NOT NULL,
      external_id     text COLLATE "C" NOT NULL,
      -- json, not jsonb: nothing looks into it here.
      fields          json NOT NULL,
      PRIMARY KEY (project_id, installation_id, rank),
      FOREIGN KEY (project_id, installation_id) REFERENCES staged_batches (project_id, installation_id)
    )`

  // The contacts of a judged batch that are no duplicates, to be compared with clients.
  yield* sql`
    CREATE TABLE staged_contacts (
      project_id      text COLLATE "C" NOT NULL,
      installation_id text COLLATE "C" NOT NULL,
      position        integer NOT NULL,
      external_id     text NOT NULL,
      -- In lower case.
      email           text,
      phone           text,
      -- By own field, of the values that fit.
      mapped          jsonb NOT NULL,
      PRIMARY KEY (project_id, installation_id, position),
      FOREIGN KEY (project_id, installation_id) REFERENCES staged_batches (project_id, installation_id)
    )`
})
