/**
 * The key map of the router (contract §18): the ids of keys that this cell serves and that do not begin with the cell's name.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { KeyId } from "../api/schema/Ids.ts"
import { livesHere } from "../platform/Moves.ts"

export const movedKeys = Effect.fnUntraced(function* (cell: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.orDie(sql<{ readonly keyId: KeyId }>`
    SELECT key_id AS "keyId" FROM api_keys JOIN projects USING (project_id)
    WHERE NOT starts_with(key_id, ${cell}) AND ${livesHere(sql, sql`move_state`)} ORDER BY key_id`)
})
