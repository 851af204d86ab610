/** Imports: the batches that installations have staged, and their evaluation with the import profile. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // A row for each installation with staged records: the digest of the records, and the results that depend only on the
  // records and the profile. The results are made when records or profile change, not with every preview.
  yield* sql`
    CREATE TABLE staged_batches (
      project_id         text COLLATE "C" NOT NULL REFERENCES projects,
      installation_id    text COLLATE "C" NOT NULL,
      digest             text NOT NULL,
      -- The profile and the results, null without a profile. rules is not used: only earlier versions write it.
      profile_version    integer,
      profile_mappings   jsonb,
      rules              integer,
      counts             json,
      duplicate_count    integer,
      unsupported_fields json,
      fingerprint        text,
      PRIMARY KEY (project_id, installation_id),
      FOREIGN KEY (project_id, installation_id) REFERENCES installations (project_id, id),
      CONSTRAINT staged_batches_evaluated CHECK (num_nulls(profile_version, profile_mappings, counts, duplicate_count,
        unsupported_fields, fingerprint) IN (0, 6))
    )`

  // Staged records refer only to their batch. To write them needs no lock on the project, which an apply may hold.
  yield* sql`
    CREATE TABLE staged_records (
      project_id      text COLLATE "C" NOT NULL,
      installation_id text COLLATE "C" NOT NULL,
      -- Place, from 0, in the order of the canonical forms, which is the order of the fingerprint.
      rank            integer NOT NULL,
      -- Place, from 0, in the batch: of two equal records, the later one is the duplicate.
      position        integer NOT NULL,
      entity_type     text NOT NULL,
      external_id     text COLLATE "C" NOT NULL,
      -- json, not jsonb: no statement reads into it.
      fields          json NOT NULL,
      PRIMARY KEY (project_id, installation_id, rank),
      FOREIGN KEY (project_id, installation_id) REFERENCES staged_batches (project_id, installation_id)
    )`

  // The contacts of an evaluated batch that are no duplicates, to be compared with clients.
  yield* sql`
    CREATE TABLE staged_contacts (
      project_id      text COLLATE "C" NOT NULL,
      installation_id text COLLATE "C" NOT NULL,
      position        integer NOT NULL,
      external_id     text NOT NULL,
      -- In lower case.
      email           text,
      phone           text,
      -- The valid values, by field of a client.
      mapped          jsonb NOT NULL,
      PRIMARY KEY (project_id, installation_id, position),
      FOREIGN KEY (project_id, installation_id) REFERENCES staged_batches (project_id, installation_id)
    )`
})
