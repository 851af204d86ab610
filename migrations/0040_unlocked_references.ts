/**
 * Lets what is created often refer to rows that many of them share without locking these. A foreign key locks the row for
 * each insert, and two inserts at once make a multixact of it, which vacuum has to clear away some day.
 *
 * The rows referred to are removed with their project at most, or, as stages are, under a lock that keeps inserts out.
 * Triggers on their side hold that nothing refers to a row that goes.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const references = [
  { child: "notes", column: "author_key_id", parent: "api_keys", key: "key_id" },
  { child: "deals", column: "organization_id", parent: "organizations", key: "id" },
  { child: "deals", column: "responsible_member_id", parent: "members", key: "id" },
  { child: "deliveries", column: "installation_id", parent: "webhooks", key: "installation_id" },
  { child: "messages", column: "conversation_id", parent: "conversations", key: "id" },
  { child: "messages", column: "channel_id", parent: "channels", key: "id" }
]

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

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
  for (const { child, column, key, parent } of references) {
    yield* sql`ALTER TABLE ${sql(child)} DROP CONSTRAINT ${sql(`${child}_project_id_${column}_fkey`)}`
    yield* sql`
      CREATE TRIGGER ${sql(`referenced_by_${child}_${column}`)} AFTER DELETE ON ${sql(parent)}
      REFERENCING OLD TABLE AS removed FOR EACH STATEMENT
      EXECUTE FUNCTION keep_referenced(${sql.literal(`'${child}', '${column}', '${key}'`)})`
  }

  // A project file replaces the stages of a pipeline whole, so what is left is looked at when it is through.
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
  yield* sql`ALTER TABLE deals DROP CONSTRAINT deals_project_id_pipeline_id_stage_id_fkey`
  yield* sql`
    CREATE CONSTRAINT TRIGGER referenced_by_deals AFTER DELETE ON stages DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION keep_stages()`
})
