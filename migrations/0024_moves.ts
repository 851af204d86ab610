/** Marks projects that are being moved to another database. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // The state of the move (see `platform/Moves.ts`), and the other database.
  yield* sql`ALTER TABLE projects ADD COLUMN move_state text`
  yield* sql`ALTER TABLE projects ADD COLUMN move_peer text`

  // Like `enter_project` of 0001_projects, but also null for a project that another database serves or is to serve. The mover
  // holds the lock exclusively while the project is fenced. If the session of the mover ends, the fence ends.
  yield* sql`
    CREATE OR REPLACE FUNCTION enter_project(project text) RETURNS integer LANGUAGE plpgsql VOLATILE AS $$
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
})
