/** Lets a project be removed: it is marked first, which ends all that works for it, and goes once it is empty. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  yield* sql`ALTER TABLE projects ADD COLUMN deleted_at timestamptz(3)`

  // As before, but for a marked project, which takes no more mutations.
  yield* sql`
    CREATE OR REPLACE FUNCTION enter_project(project text) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
    BEGIN
      IF pg_try_advisory_xact_lock_shared(hashtextextended(project, 0)) THEN
        RETURN (SELECT revision FROM projects WHERE project_id = project AND deleted_at IS NULL);
      END IF;
      RETURN NULL;
    END $$`

  // Tables that are filled by the second have no foreign key to projects, and no table may keep rows of one that is gone.
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
  yield* sql`DROP TRIGGER projects_are_kept ON projects`
  yield* sql`
    CREATE TRIGGER projects_are_kept BEFORE TRUNCATE ON projects FOR EACH STATEMENT EXECUTE FUNCTION keep_projects()`
  yield* sql`
    CREATE TRIGGER projects_go_empty BEFORE DELETE ON projects FOR EACH ROW EXECUTE FUNCTION remove_empty_projects()`
})
