import { Effect, Option } from "effect"
import { Command } from "effect/cli"
import { SqlClient } from "effect/sql"
import { pauseAll } from "../../campaigns/CampaignControl.ts"
import { migrate as applyPending } from "../../sql/migrations/Migrations.ts"
import { plural } from "../../platform/Text.ts"
import { mutations } from "../ActionCommand.ts"
import * as Flags from "../Flags.ts"
import { onMigratedDatabase, onNewDatabase } from "../OnDatabase.ts"
import { answer, CommandFailed, described, withProgress } from "../Output.ts"
import { recordServiceAction } from "../../operating/Audit.ts"
import { reseal as resealValues } from "../../secrets/SealedValues.ts"
import { SecretBox } from "../../secrets/SecretBox.ts"
import { sealedTables } from "../../service/StoredData.ts"
import { Settings } from "../../platform/Settings.ts"
import type { KeyId } from "../../api/schema/Ids.ts"
import { livesHere } from "../../platform/MoveState.ts"

export const migrate = Command.make(
  "migrate",
  {
    json: Flags.json,
    restored: Flags.toggle(
      "restored",
      "After a restore: pause all campaigns, which would send again what was sent since"
    )
  },
  Effect.fn(function* ({ json, restored }) {
    const { applied, paused } = yield* Effect.gen(function* () {
      const applied = yield* applyPending
      return { applied, paused: restored ? yield* Effect.provide(pauseAll, mutations) : undefined }
    }).pipe(onNewDatabase, withProgress("Migrating"))
    const done =
      applied.length === 0 ? ["Nothing to do: every migration is applied"] : applied.map((name) => `Applied ${name}`)
    const campaigns = (paused ?? []).map(({ id, projectId }) => `  ${projectId} ${id}`)
    const pausing = paused === undefined ? [] : [`Paused ${plural(campaigns.length, "campaign", "campaigns")}`]
    yield* answer(json, { applied, paused }, [...done, ...pausing, ...campaigns].join("\n"))
  })
).pipe(
  described("Apply the pending migrations", {
    "": "",
    "--restored": "After a restore, before a worker starts",
    "DATABASE_URL=postgres://… SECRET_KEY=…": "Before a new version with MIGRATE_ON_START=false"
  })
)

const shown = 10

const reseal = Command.make(
  "reseal",
  { json: Flags.json },
  Effect.fn(function* ({ json }) {
    const { failed, resealed } = yield* resealValues(sealedTables).pipe(
      Effect.tap(({ failed, resealed }) =>
        recordServiceAction({
          action: "secrets.reseal",
          target: "secrets",
          detail: { resealed, failed: failed.length }
        })
      ),
      Effect.provide(SecretBox.layerOfSettings),
      onMigratedDatabase,
      withProgress("Sealing")
    )
    const text = [
      `Sealed ${plural(resealed, "secret", "secrets")} anew`,
      ...(failed.length === 0 ? [] : [`${plural(failed.length, "is", "are")} opened by no key that is set:`]),
      ...failed.slice(0, shown).map((name) => `  ${name}`),
      ...(failed.length > shown ? [`  and ${failed.length - shown} more`] : [])
    ]
    yield* answer(json, { resealed, failed: failed.length }, text.join("\n"))
  })
).pipe(
  described(
    "Seal anew with SECRET_KEY the secrets that keys of SECRET_KEY_PREVIOUS have sealed. Safe to repeat, and while the service runs",
    { "SECRET_KEY=$NEW SECRET_KEY_PREVIOUS=$OLD": "After every process seals with the new key" }
  )
)

export const secrets = Command.make("secrets").pipe(
  Command.withDescription("Move stored secrets to another key"),
  Command.withSubcommands([reseal])
)

const cellUnnamed = "CELL is not set: it is the name of this cell, such as CELL=01"

/** Prints what the router in front of several cells needs. A cell is a database with its own processes (contract §18). */
const map = Command.make(
  "map",
  { json: Flags.json },
  Effect.fn(function* ({ json }) {
    const { cell } = yield* Settings
    if (Option.isNone(cell)) return yield* new CommandFailed({ message: cellUnnamed })
    const sql = yield* SqlClient.SqlClient
    const keys = yield* sql<{ readonly keyId: KeyId }>`
      SELECT key_id AS "keyId" FROM api_keys JOIN projects USING (project_id)
      WHERE NOT starts_with(key_id, ${cell.value}) AND ${livesHere(sql, sql`move_state`)} ORDER BY key_id`
    const items = keys.map(({ keyId }) => ({ keyId, cell: cell.value }))
    const lines = items.map((item) => `${item.keyId} ${item.cell}`)
    // Without keys, the text form prints nothing, because an empty line would get into the map.
    if (json || lines.length > 0) yield* answer(json, { items }, lines.join("\n"))
  }, onMigratedDatabase)
).pipe(
  described("Print the lines of the router's map for this cell: the keys that live here and do not begin with CELL", {
    "CELL=02": "As deploy/cells/cells.map has them"
  })
)

export const cells = Command.make("cells").pipe(
  Command.withDescription("Print what the router in front of several cells needs"),
  Command.withSubcommands([map])
)
