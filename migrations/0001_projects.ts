/** Projects: members, API keys, idempotency keys, and the removal of a project. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Ids, and all text in an index, compare by byte, whatever the collation of the database: pages are ordered by id, and an index by
  // another collation is wrong after an upgrade of the library that defines it (ICU, glibc).
  yield* sql`
    CREATE TABLE projects (
      project_id          text COLLATE "C" PRIMARY KEY,
      name                text NOT NULL,
      time_zone           text NOT NULL,
      contact_capacity    integer CHECK (contact_capacity >= 0),
      -- Counted only while there is a capacity, so that unlimited projects never contend for this row.
      active_clients      integer NOT NULL DEFAULT 0,
      modules             text[] NOT NULL,
      entitlements        text[] NOT NULL,
      rate_limits         jsonb NOT NULL,
      -- Incremented by each project file that is applied.
      revision            integer NOT NULL DEFAULT 0,
      -- The foreign key of this column follows in 0002_crm.
      default_pipeline_id text COLLATE "C",
      created_at          timestamptz(3) NOT NULL,
      -- Set before a removal. From then on, no work is done for the project.
      deleted_at          timestamptz(3),
      -- The state of a move to another database (see platform/Moves.ts), and the other database.
      move_state          text,
      move_peer           text
    )`
  yield* sql`CREATE INDEX projects_moving ON projects (project_id) WHERE move_state IS NOT NULL`

  yield* sql`
    CREATE TABLE members (
      project_id text COLLATE "C" NOT NULL REFERENCES projects,
      id         text COLLATE "C" NOT NULL,
      name       text NOT NULL,
      email      text,
      active     boolean NOT NULL,
      PRIMARY KEY (project_id, id)
    )`

  // A token contains the id of its key but not the id of its project, so the key id is unique across projects.
  yield* sql`
    CREATE TABLE api_keys (
      project_id   text COLLATE "C" NOT NULL REFERENCES projects,
      key_id       text COLLATE "C" NOT NULL,
      token_hash   bytea NOT NULL,
      name         text NOT NULL,
      scopes       text[] NOT NULL,
      member_id    text COLLATE "C",
      -- The lifetime with which the key was issued. A rotation gives the new key the same lifetime.
      lifetime     interval NOT NULL,
      expires_at   timestamptz(3) NOT NULL,
      revoked_at   timestamptz(3),
      last_used_at timestamptz(3),
      created_at   timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, key_id),
      CONSTRAINT api_keys_key_id UNIQUE (key_id),
      FOREIGN KEY (project_id, member_id) REFERENCES members (project_id, id)
    )`
  yield* sql`CREATE INDEX api_keys_by_age ON api_keys (project_id, created_at DESC, key_id DESC)`

  // Tables that retention deletes from, such as this one, are vacuumed with their indexes when a hundredth of their rows is dead.
  // Otherwise a claim or a prune of a large table reads past dead index entries, up to a fifth of its rows.
  //
  // This table and the other tables that mutations insert into have no foreign key to projects. Each insert would lock the
  // row of the project, and two inserts at once would make a multixact, which vacuum has to remove. Instead, the statements
  // take the project's id from its row, and `remove_empty_projects` keeps a project that still has rows.
  yield* sql`
    CREATE TABLE idempotency_keys (
      project_id  text COLLATE "C" NOT NULL,
      key         text COLLATE "C" NOT NULL,
      fingerprint bytea NOT NULL,
      resource_id text COLLATE "C" NOT NULL,
      changed     boolean NOT NULL,
      -- Null for resources without a version, such as a delivery.
      version     integer,
      created_at  timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, key)
    ) WITH (
      autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, vacuum_index_cleanup = on
    )`
  // For pruning only. The condition is always true, but keeps the planner from using the index for other statements. If a
  // look-up by key is planned while the table is empty, all indexes cost the same: with this index, the look-up would read
  // all keys of the project.
  yield* sql`
    CREATE INDEX idempotency_keys_age ON idempotency_keys (project_id, created_at) WHERE created_at IS NOT NULL`

  // Returns the current revision of a project. Returns null for a deleted project, for a project that another database serves or
  // is to serve, and while a project file is applied or waits to be applied. The mover of a project holds the lock exclusively
  // while the project is fenced: if the session of the mover ends, the fence ends. A volatile function reads with its own
  // snapshot, which is taken once the lock is held. If the result differs from the revision that the calling statement sees, that
  // statement began before a file was applied: its data is old.
  yield* sql`
    CREATE FUNCTION enter_project(project text) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
      IF pg_try_advisory_xact_lock_shared(hashtextextended(project, 0)) THEN
        RETURN (
          SELECT revision FROM projects WHERE project_id = project AND deleted_at IS NULL
            AND (move_state IS NULL OR move_state IN ('copying', 'resting', 'fenced', 'aborting'))
        );
      END IF;
      RETURN NULL;
    END $$`

  // Returns the projects that no background work touches: projects that another database serves, and projects whose work a
  // mover has stopped. Until a mover ends, it holds a lock: the hash of the project's id with the seed 1.
  yield* sql`
    CREATE FUNCTION resting_projects() RETURNS text[] LANGUAGE plpgsql STABLE AS $$
    BEGIN
      RETURN ARRAY(
        SELECT project_id FROM projects WHERE move_state IS NOT NULL AND (
          move_state IN ('switching', 'switched', 'arriving') OR move_state IN ('resting', 'fenced') AND EXISTS (
            SELECT FROM pg_locks
            WHERE locktype = 'advisory' AND objsubid = 1 AND granted AND mode = 'ExclusiveLock'
              AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
              AND ((classid::bigint << 32) | objid::bigint) = hashtextextended(project_id, 1)
          )
        )
      );
    END $$`

  yield* sql`
    CREATE FUNCTION keep_projects() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'projects are never removed' USING ERRCODE = 'restrict_violation';
    END $$`
  yield* sql`
    CREATE TRIGGER projects_are_kept BEFORE TRUNCATE ON projects FOR EACH STATEMENT EXECUTE FUNCTION keep_projects()`

  // No table may keep rows of a deleted project, and not all tables have a foreign key to projects.
  yield* sql`
    CREATE FUNCTION remove_empty_projects() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE child regclass; found boolean;
    BEGIN
      IF OLD.deleted_at IS NULL THEN
        RAISE EXCEPTION 'project % is not marked as deleted', OLD.project_id USING ERRCODE = 'restrict_violation';
      END IF;
      FOR child IN
        SELECT attrelid FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE attname = 'project_id' AND relkind IN ('r', 'p') AND NOT relispartition
          AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = TG_RELID) AND attrelid <> TG_RELID
      LOOP
        EXECUTE format('SELECT EXISTS (SELECT FROM %s WHERE project_id = $1)', child) INTO found USING OLD.project_id;
        IF found THEN
          RAISE EXCEPTION '% has rows of project %', child, OLD.project_id USING ERRCODE = 'restrict_violation';
        END IF;
      END LOOP;
      RETURN OLD;
    END $$`
  yield* sql`
    CREATE TRIGGER projects_go_empty BEFORE DELETE ON projects FOR EACH ROW EXECUTE FUNCTION remove_empty_projects()`

  // Replaces foreign keys to rows that many new rows refer to, for the reason given at idempotency_keys. These rows are
  // removed only with their project. Arguments: the table that refers, its column, and the column that it refers to.
  yield* sql`
    CREATE FUNCTION keep_referenced() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE found boolean;
    BEGIN
      EXECUTE format(
        'SELECT EXISTS (SELECT FROM removed JOIN %I AS child
           ON child.project_id = removed.project_id AND child.%I = removed.%I)',
        TG_ARGV[0], TG_ARGV[1], TG_ARGV[2]
      ) INTO found;
      IF found THEN
        RAISE EXCEPTION '% still refer to rows of %', TG_ARGV[0], TG_TABLE_NAME USING ERRCODE = 'foreign_key_violation';
      END IF;
      RETURN NULL;
    END $$`
})
