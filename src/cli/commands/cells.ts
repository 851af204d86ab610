/**
 * `cells`: prints what the router in front of several cells needs. A cell is a database with its own processes (contract §18).
 */
import { Data, Effect, Option } from "effect"
import { Command } from "effect/cli"
import { Settings } from "../../platform/Settings.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase } from "../OnDatabase.ts"
import { answer, cli } from "../Output.ts"
import { SqlClient } from "effect/sql"
import type { KeyId } from "../../api/schema/Ids.ts"
import { livesHere } from "../../platform/Moves.ts"

/** Each line of the router's map contains the name of the cell, so the command needs `CELL`. */
class CellUnnamed extends Data.TaggedError("CellUnnamed") {
  override readonly message = "CELL is not set: it is the name of this cell, such as CELL=01"
}

const map = Command.make(
  "map",
  { json: Flags.json },
  Effect.fn(function* ({ json }) {
    const { cell } = yield* Settings
    if (Option.isNone(cell)) return yield* new CellUnnamed()
    const keys = yield* movedKeys(cell.value)
    const items = keys.map(({ keyId }) => ({ keyId, cell: cell.value }))
    const lines = items.map((item) => `${item.keyId} ${item.cell}`)
    // Without keys, the text form prints nothing, because an empty line would get into the map.
    if (json || lines.length > 0) yield* answer(json, { items }, lines.join("\n"))
  }, onMigratedDatabase)
).pipe(
  Command.withDescription(
    "Print the lines of the router's map for this cell: the keys that live here and do not begin with CELL"
  ),
  Command.withExamples([{ command: `CELL=02 ${cli} cells map`, description: "As deploy/cells/cells.map has them" }])
)

export const cells = Command.make("cells").pipe(
  Command.withDescription("Print what the router in front of several cells needs"),
  Command.withSubcommands([map])
)

/** The keys that this cell serves and that do not begin with the name of the cell. */
const movedKeys = Effect.fnUntraced(function* (cell: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* Effect.orDie(sql<{ readonly keyId: KeyId }>`
    SELECT key_id AS "keyId" FROM api_keys JOIN projects USING (project_id)
    WHERE NOT starts_with(key_id, ${cell}) AND ${livesHere(sql, sql`move_state`)} ORDER BY key_id`)
})
