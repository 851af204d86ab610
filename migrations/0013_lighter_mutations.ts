/** Makes mutations lighter: they share the project's advisory lock, and lock no row of the project. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Returns the project's revision as it is now, or null while a project file is applied or waits to be. A function that
  // is volatile reads with a snapshot of its own, taken after the lock is held: where that differs from what the calling
  // statement sees, the statement has begun before a file was through, and what it sees is old.
  yield* sql`
    CREATE FUNCTION enter_project(project text) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
      IF pg_try_advisory_xact_lock_shared(hashtextextended(project, 0)) THEN
        RETURN (SELECT revision FROM projects WHERE project_id = project);
      END IF;
      RETURN NULL;
    END $$`

  // Each insert would lock the one row of its project, and two at once make a multixact of it. The statements that insert
  // take the project's id from its row, and no project is ever removed.
  yield* sql`ALTER TABLE idempotency_keys DROP CONSTRAINT idempotency_keys_project_id_fkey`
  yield* sql`ALTER TABLE clients DROP CONSTRAINT clients_project_id_fkey`
  yield* sql`ALTER TABLE deals DROP CONSTRAINT deals_project_id_fkey`
  yield* sql`ALTER TABLE notes DROP CONSTRAINT notes_project_id_fkey`
  yield* sql`ALTER TABLE events DROP CONSTRAINT events_project_id_fkey`
  yield* sql`ALTER TABLE deliveries DROP CONSTRAINT deliveries_project_id_fkey`
  yield* sql`ALTER TABLE messages DROP CONSTRAINT messages_project_id_fkey`
  yield* sql`
    CREATE FUNCTION keep_projects() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      RAISE EXCEPTION 'projects are never removed' USING ERRCODE = 'restrict_violation';
    END $$`
  yield* sql`
    CREATE TRIGGER projects_are_kept BEFORE DELETE OR TRUNCATE ON projects
    FOR EACH STATEMENT EXECUTE FUNCTION keep_projects()`

  // For pruning alone. A look-up by key that is planned while the table is empty, when all indexes cost the same, could
  // take it and read all of the project: it can't, as nothing in it says that there is a time.
  yield* sql`DROP INDEX idempotency_keys_age`
  yield* sql`
    CREATE INDEX idempotency_keys_age ON idempotency_keys (project_id, created_at) WHERE created_at IS NOT NULL`
})
