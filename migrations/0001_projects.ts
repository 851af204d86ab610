/** Projects: their members, the keys that open them, the outcomes of their commands, and the removal of a project. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Ids compare by byte, whatever the collation of the database: pages are ordered by them.
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
      -- Its foreign key follows in 0002_crm.
      default_pipeline_id text COLLATE "C",
      created_at          timestamptz(3) NOT NULL,
      -- Set before a removal: it ends all work for the project.
      deleted_at          timestamptz(3)
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

  // A token contains the id of its key but not of its project, so the key id is unique across projects.
  yield* sql`
    CREATE TABLE api_keys (
      project_id   text COLLATE "C" NOT NULL REFERENCES projects,
      key_id       text COLLATE "C" NOT NULL,
      token_hash   bytea NOT NULL,
      name         text NOT NULL,
      scopes       text[] NOT NULL,
      member_id    text COLLATE "C",
      -- The lifetime at its issue; a rotation gives the new key the same.
      lifetime     interval NOT NULL,
      expires_at   timestamptz(3) NOT NULL,
      revoked_at   timestamptz(3),
      last_used_at timestamptz(3),
      created_at   timestamptz(3) NOT NULL,
      PRIMARY KEY (project_id, key_id),
      CONSTRAINT api_keys_key_id UNIQUE (key_id),
      FOREIGN KEY (project_id, member_id) REFERENCES members (project_id, id)
    )`

  // No foreign key to projects, here and in the other tables that mutations insert into: it would lock the one row of the
  // project for each insert, and two inserts at once make a multixact of it, which vacuum has to remove. The statements
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
    )`
  // For pruning only. The condition is always true, but keeps the planner from using the index for other statements.
  // Otherwise a look-up by key could take it and read all keys of the project, if the look-up is planned while the table is
  // empty: all indexes then cost the same.
  yield* sql`
    CREATE INDEX idempotency_keys_age ON idempotency_keys (project_id, created_at) WHERE created_at IS NOT NULL`

  // Returns the project's revision as it is now, or null while a project file is applied or waits to be, and for a deleted
  // project. A volatile function reads with a snapshot of its own, taken after the lock is held: where that differs from
  // what the calling statement sees, the statement began before a file was applied, and what it sees is old.
  yield* sql`
    CREATE FUNCTION enter_project(project text) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
      IF pg_try_advisory_xact_lock_shared(hashtextextended(project, 0)) THEN
        RETURN (SELECT revision FROM projects WHERE project_id = project AND deleted_at IS NULL);
      END IF;
      RETURN NULL;
    END $$`

  yield* sql`
    CREATE FUNCTION keep_projects() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'projects are never removed' USING ERRCODE = 'restrict_violation';
    END $$`
  yield* sql`
    CREATE TRIGGER projects_are_kept BEFORE TRUNCATE ON projects FOR EACH STATEMENT EXECUTE FUNCTION keep_projects()`

  // Not all tables have a foreign key to projects, and no table may keep rows of a project that is gone.
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

  // Replaces foreign keys to rows that many new rows share, as above. The rows referred to are removed with their project
  // at most, or, as stages are, under a lock that keeps inserts out. Arguments: the table that refers, its column, and the
  // column that it refers to.
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
